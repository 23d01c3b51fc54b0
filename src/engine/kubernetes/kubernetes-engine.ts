import { randomBytes } from 'node:crypto';
import { Failure } from '../../failure.js';
import { type Clock, systemClock } from '../../time/clock.js';
import {
  type ClusterEngine,
  type ClusterJob,
  type ClusterOrder,
  hasClusterEnded,
} from '../cluster.js';
import { refuseEnded } from '../job-failures.js';
import { objectIn } from '../job-folder.js';
import {
  type BegunPod,
  begunPods,
  cancelledAnnotation,
  containerName,
  isJobName,
  jobLabel,
  jobManifest,
  jobName,
  jobView,
  jobViews,
  type ManifestStyle,
  ownLabel,
} from './job-view.js';
import { type Kubectl, type KubectlStream, readObjects } from './kubectl.js';

export interface KubernetesOptions extends Omit<ManifestStyle, 'image'> {
  readonly kubectl: Kubectl;
  readonly kubectlStream: KubectlStream;
  /** Only what is submitted needs one. */
  readonly image: string | undefined;
  readonly clock?: Clock;
}

/** The API server serves many: it is not asked more often how a job stands. */
const lookSeconds = 2;

/** Ends a job for good, running or waiting; what it was stays to be seen. */
const cancelling = {
  metadata: { annotations: { [cancelledAnnotation]: 'true' } },
  spec: { activeDeadlineSeconds: 1 },
};

/** Jobs of a Kubernetes cluster; it places them, and kubectl is how it is asked. */
export function kubernetesEngine(options: KubernetesOptions): ClusterEngine {
  const { kubectl, kubectlStream, image, clock = systemClock, ...style } = options;
  const within = style.namespace === undefined ? [] : ['--namespace', style.namespace];
  const written = (order: ClusterOrder): { readonly id: string; readonly manifest: object } => {
    if (image === undefined) throw noImage();
    const id = jobName(order.name, randomBytes(3).toString('hex'));
    return { id, manifest: jobManifest(order, id, { ...style, image }) };
  };
  const list = async (label: string): Promise<readonly unknown[]> =>
    readObjects(await kubectl(['get', 'jobs,pods', '-l', label, '-o', 'json', ...within]));
  const listOf = async (id: string) => {
    // It becomes a part of a selector.
    if (!isJobName(id)) throw unknownJob(id, style.namespace);
    return list(`${jobLabel}=${id}`);
  };
  const find = (id: string, objects: readonly unknown[]): ClusterJob => {
    const [job] = jobViews(objects);
    if (job === undefined) throw unknownJob(id, style.namespace);
    return job;
  };
  return {
    name: 'kubernetes',
    placesJobs: true,
    enforces: { gpu: 'HAMi, or the SDK in the process', host: 'the cgroup of the container' },
    devices: () => Promise.resolve([]),
    preview: async (order) => textOf(written(order).manifest),
    async submit(order) {
      const { manifest } = written(order);
      await kubectl(['create', '-f', '-'], textOf(manifest));
      return { ...jobView(objectIn(manifest), []), submittedAt: new Date().toISOString() };
    },
    jobs: async (most) => jobViews(await list(`${ownLabel}=plimsoll`)).slice(0, most),
    job: async (id) => find(id, await listOf(id)),
    async log(id, from) {
      const objects = await listOf(id);
      find(id, objects);
      const pieces: Buffer[] = [];
      for (const { name } of begunPods(objects)) {
        pieces.push(await kubectl(['logs', name, '-c', containerName, ...within]));
      }
      // kubectl cannot begin at a byte.
      return Buffer.concat(pieces).subarray(from);
    },
    async followLog(id, write, signal) {
      const logs = new PodLogs({ kubectlStream, within, write });
      for (;;) {
        const objects = await listOf(id);
        const { state } = find(id, objects);
        await logs.copy(begunPods(objects), signal);
        if (hasClusterEnded(state) || signal.aborted) return;
        await clock.waitUntil(clock.seconds() + lookSeconds, signal);
      }
    },
    async cancel(id) {
      refuseEnded(find(id, await listOf(id)));
      const patch = ['--type', 'merge', '-p', JSON.stringify(cancelling)];
      await kubectl(['patch', 'job', id, ...patch, ...within]);
      return find(id, await listOf(id));
    },
    async use() {
      const jobs = jobViews(await list(`${ownLabel}=plimsoll`));
      return jobs
        .filter(({ state }) => state === 'running')
        .flatMap(({ id, nodes, attempts }) => {
          const reservedBytes = attempts.at(-1)?.reservedBytes ?? 'unknown';
          // Which GPU of the node it is, Kubernetes does not say.
          return [{ jobId: id, device: `${nodes}/gpu`, reservedBytes }];
        });
    },
  };
}

function textOf(manifest: object): string {
  return `${JSON.stringify(manifest, undefined, 2)}\n`;
}

function unknownJob(id: string, namespace: string | undefined): Failure {
  const where = namespace === undefined ? "kubectl's own namespace" : `the namespace ${namespace}`;
  return new Failure({
    kind: 'input',
    code: 'unknown-job',
    fact: `There is no job ${id.slice(0, 80)} of plimsoll in ${where}.`,
    next: '"plimsoll jobs --engine kubernetes" lists them; --namespace names another one.',
  });
}

function noImage(): Failure {
  return new Failure({
    kind: 'input',
    code: 'no-image',
    fact: 'A job of Kubernetes runs in a container, and no image was named.',
    next: 'Add --container-image, such as --container-image pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime.',
  });
}

interface PodLogsOptions {
  readonly kubectlStream: KubectlStream;
  /** Words that name the namespace. */
  readonly within: readonly string[];
  readonly write: (bytes: Buffer) => void;
}

/** Reads the output of a job's pods as it comes: each byte once, even over broken connections. */
class PodLogs {
  readonly #options: PodLogsOptions;
  readonly #logs = new Map<string, StampedLog>();
  readonly #whole = new Set<string>();

  constructor(options: PodLogsOptions) {
    this.#options = options;
  }

  /** One pod after another, each until kubectl ends: with its container, or with the connection. */
  async copy(pods: readonly BegunPod[], signal: AbortSignal): Promise<void> {
    for (const pod of pods) {
      if (signal.aborted) return;
      if (!this.#whole.has(pod.name)) await this.#copyOne(pod, signal);
      if (!pod.isOver) return;
      // What could not be read of a pod that has ended is not there any more.
      this.#whole.add(pod.name);
    }
  }

  async #copyOne({ name, isOver }: BegunPod, signal: AbortSignal): Promise<void> {
    const { kubectlStream, within, write } = this.#options;
    const log = this.#logs.get(name) ?? new StampedLog(write);
    this.#logs.set(name, log);
    log.reconnect();
    const words = [
      'logs',
      name,
      '-c',
      containerName,
      '--timestamps',
      ...(isOver ? [] : ['--follow']),
      ...(log.since === '' ? [] : [`--since-time=${log.since}`]),
      ...within,
    ];
    try {
      await kubectlStream(words, (bytes) => log.take(bytes), signal);
    } catch (error) {
      // A connection that broke, or a pod that is gone: the next look tells.
      if (!(error instanceof Failure) || error.code !== 'kubectl-failed') throw error;
    }
  }
}

/** The time before each line, and the space after it. */
const stamp = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d) $/;
/** A line without a space in its first 40 bytes does not begin with a time. */
const longestStamp = 40;
const newline = 0x0a;
const space = 0x20;

/**
 * Removes the time stamps from the output of `kubectl logs --timestamps`. It knows its position, so
 * that reading can continue after a broken connection: kubectl can begin only at a second, and
 * prints the lines of that second again.
 *
 * @example
 * new StampedLog((bytes) => {}).take(Buffer.from('2026-11-16T10:00:00.000000001Z step 1\n')); // 'step 1\n'
 */
export class StampedLog {
  readonly #write: (bytes: Buffer) => void;
  /** Of the last line that was seen; empty before the first. */
  #last = '';
  /** How many lines have that stamp, and how many bytes of the last of them were written. */
  #lines = 0;
  #bytes = 0;
  /** The start of a line, kept until it is known whether it is a time stamp. */
  #head: Buffer | undefined = Buffer.alloc(0);
  /** Lines with the last stamp that come again, and how much of this line was written before. */
  #again = 0;
  #skip = 0;

  constructor(write: (bytes: Buffer) => void) {
    this.#write = write;
  }

  /** Returns the time from which kubectl should read; empty for the whole log. */
  get since(): string {
    return this.#last;
  }

  /** A new connection follows, which begins with the lines of the last second. */
  reconnect(): void {
    this.#head = Buffer.alloc(0);
    this.#again = this.#lines;
    this.#skip = 0;
  }

  take(chunk: Buffer): void {
    let rest = chunk;
    while (rest.length > 0) rest = this.#head === undefined ? this.#text(rest) : this.#stamp(rest);
  }

  /** Up to the end of the line; answers what comes after it. */
  #text(bytes: Buffer): Buffer {
    const end = bytes.indexOf(newline);
    const own = end === -1 ? bytes : bytes.subarray(0, end + 1);
    if (end !== -1) this.#head = Buffer.alloc(0);
    const fresh = own.subarray(Math.min(this.#skip, own.length));
    this.#skip -= own.length - fresh.length;
    this.#bytes += fresh.length;
    if (fresh.length > 0) this.#write(fresh);
    return bytes.subarray(own.length);
  }

  /** The beginning of a line; answers what comes after it. */
  #stamp(bytes: Buffer): Buffer {
    const before = this.#head ?? Buffer.alloc(0);
    const all = Buffer.concat([before, bytes.subarray(0, longestStamp)]);
    const end = all.indexOf(space);
    const isWhole = end !== -1 || all.length >= longestStamp || all.includes(newline);
    if (!isWhole) {
      this.#head = all;
      return Buffer.alloc(0);
    }
    const text = all.toString('latin1', 0, end + 1);
    this.#head = undefined;
    if (!stamp.test(text)) {
      // A word of kubectl itself has none, and is passed on.
      this.#skip = 0;
      return Buffer.concat([before, bytes]);
    }
    this.#beginLine(text.trimEnd());
    return bytes.subarray(end + 1 - before.length);
  }

  #beginLine(at: string): void {
    if (this.#again > 0 && at < this.#last) {
      this.#skip = Number.POSITIVE_INFINITY;
      return;
    }
    if (this.#again > 0 && at === this.#last) {
      this.#again -= 1;
      // The last of them may have been cut.
      this.#skip = this.#again > 0 ? Number.POSITIVE_INFINITY : this.#bytes;
      return;
    }
    this.#again = 0;
    this.#skip = 0;
    this.#lines = at === this.#last ? this.#lines + 1 : 1;
    this.#last = at;
    this.#bytes = 0;
  }
}
