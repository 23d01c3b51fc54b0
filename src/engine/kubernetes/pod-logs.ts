import { Failure } from '../../failure.js';
import { containerName } from './job-manifest.js';
import type { BegunPod } from './job-view.js';
import type { KubectlStream } from './kubectl.js';
import { StampedLog } from './stamped-log.js';

export interface PodLogsOptions {
  readonly kubectlStream: KubectlStream;
  /** Words that name the namespace. */
  readonly within: readonly string[];
  readonly write: (bytes: Buffer) => void;
}

/** What the pods of a job print, as it comes: each byte once, also over connections that break. */
export class PodLogs {
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
