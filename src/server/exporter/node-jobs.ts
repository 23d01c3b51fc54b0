import type { ProcessReading } from '../../device/types.js';
import type { ProcessJob } from '../../run/processes/job-of.js';
import { isKnown, type Known } from '../../units/known.js';
import type { JobFigures } from '../metrics/job-families.js';

/** A process on a device, with the job that it belongs to. */
export interface OwnedProcess extends ProcessReading {
  readonly device: string;
  readonly job: ProcessJob | undefined;
}

/** What jobs hold of devices, by the processes that were last read, and the most that they held. */
export class NodeJobs {
  #jobs = new Map<string, JobFigures>();

  take(processes: readonly OwnedProcess[]): void {
    const before = this.#jobs;
    this.#jobs = new Map();
    for (const { device, job, usedBytes } of processes) {
      if (job === undefined) continue;
      const key = `${device} ${job.engine} ${job.id}`;
      const seen = this.#jobs.get(key);
      const used = seen === undefined ? usedBytes : sum(seen.usedBytes, usedBytes);
      this.#jobs.set(key, {
        engine: job.engine,
        jobId: job.id,
        name: seen?.name || job.name,
        device,
        reservedBytes: larger(seen?.reservedBytes, job.reservedBytes),
        usedBytes: used,
        peakBytes: larger(before.get(key)?.peakBytes, used),
      });
    }
  }

  get all(): readonly JobFigures[] {
    return [...this.#jobs.values()];
  }

  /** Each of them once, on however many devices. */
  get count(): number {
    return new Set(this.all.map(({ engine, jobId }) => `${engine} ${jobId}`)).size;
  }
}

function sum(one: Known<number>, other: Known<number>): Known<number> {
  return isKnown(one) && isKnown(other) ? one + other : 'unknown';
}

function larger(one: Known<number> = 'unknown', other: Known<number> = 'unknown'): Known<number> {
  if (!isKnown(one)) return other;
  return isKnown(other) ? Math.max(one, other) : one;
}
