import type { Known } from '../../../units/known.js';
import type { EstimatingReason } from '../../reasons/types.js';

/** A job that waits for its estimate. */
export interface JobToEstimate {
  readonly id: string;
  readonly owner: string;
  /** The smaller, the sooner, among those of the owner. */
  readonly turn: number;
}

export interface JobEstimatesOptions {
  /** Whether it still waits for its estimate: it may have been cancelled, or measured meanwhile. */
  readonly isWanted: (id: string) => boolean;
  /** Makes the estimate and keeps it. Never throws; it ends soon after the signal. */
  readonly estimate: (
    id: string,
    signal: AbortSignal,
    onProgress: (doing: string, share?: number) => void,
  ) => Promise<void>;
  /** Called when there is something else to say of one. */
  readonly onChange: () => void;
}

interface Working {
  readonly id: string;
  readonly stop: AbortController;
  readonly ended: Promise<void>;
  doing: Known<string>;
  share: Known<number>;
}

/**
 * Estimates of jobs that wait for them: one at a time for each owner, so that none keeps the others from theirs.
 *
 * @example
 * const estimates = new JobEstimates({ isWanted, estimate, onChange });
 * estimates.add({ id: '7', owner: 'ada', turn: 0 });
 * estimates.progressOf('7'); // { code: 'estimating', ahead: 0, doing: 'Loading PyTorch', share: 'unknown' }
 */
export class JobEstimates {
  readonly #options: JobEstimatesOptions;
  readonly #waiting = new Map<string, JobToEstimate[]>();
  readonly #working = new Map<string, Working>();
  #isClosed = false;

  constructor(options: JobEstimatesOptions) {
    this.#options = options;
  }

  add(job: JobToEstimate): void {
    const waiting = this.#waiting.get(job.owner) ?? [];
    const before = waiting.findLastIndex(({ turn }) => turn <= job.turn);
    waiting.splice(before + 1, 0, job);
    this.#waiting.set(job.owner, waiting);
    this.#begin(job.owner);
  }

  /** Ends those that are no longer wanted. */
  review(): void {
    const { isWanted } = this.#options;
    for (const { id, stop } of this.#working.values()) if (!isWanted(id)) stop.abort();
    for (const [owner, waiting] of this.#waiting) {
      const wanted = waiting.filter(({ id }) => isWanted(id));
      if (wanted.length < waiting.length) this.#waiting.set(owner, wanted);
    }
  }

  /** Undefined of a job that waits for none. */
  progressOf(id: string, owner: string): EstimatingReason | undefined {
    const working = this.#working.get(owner);
    if (working?.id === id) {
      return { code: 'estimating', ahead: 0, doing: working.doing, share: working.share };
    }
    const place = this.#waiting.get(owner)?.findIndex((job) => job.id === id) ?? -1;
    if (place === -1) return undefined;
    const ahead = place + (working === undefined ? 0 : 1);
    return { code: 'estimating', ahead, doing: 'unknown', share: 'unknown' };
  }

  /** Those that are made are ended, and made again by the next daemon. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const working = [...this.#working.values()];
    for (const { stop } of working) stop.abort();
    await Promise.all(working.map(({ ended }) => ended));
  }

  #begin(owner: string): void {
    if (this.#isClosed || this.#working.has(owner)) return;
    const job = this.#waiting.get(owner)?.shift();
    if (job === undefined) {
      this.#waiting.delete(owner);
      return;
    }
    const { id } = job;
    const stop = new AbortController();
    const onProgress = (doing: string, share?: number) => {
      Object.assign(working, { doing, share: share ?? 'unknown' });
      this.#options.onChange();
    };
    const ended = Promise.resolve()
      .then(() => this.#options.estimate(id, stop.signal, onProgress))
      .finally(() => {
        this.#working.delete(owner);
        this.#begin(owner);
        this.#options.onChange();
      });
    const working: Working = { id, stop, ended, doing: 'unknown', share: 'unknown' };
    this.#working.set(owner, working);
  }
}
