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
import { objectIn } from '../json-values.js';
import {
  containerName,
  isJobName,
  jobLabel,
  jobManifest,
  jobName,
  type ManifestStyle,
  ownLabel,
} from './job-manifest.js';
import { begunPods, cancelledAnnotation, jobView, jobViews } from './job-view.js';
import { type Kubectl, type KubectlStream, readObjects } from './kubectl.js';
import { PodLogs } from './pod-logs.js';

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
