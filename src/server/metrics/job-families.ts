import { isKnown, type Known } from '../../units/known.js';
import type { MetricFamily } from './metric-text.js';

/** What one job has of one device. */
export interface JobFigures {
  /** Left out for jobs of the server itself. */
  readonly engine?: string | undefined;
  /** Not `job`: Prometheus has a label of its own by that name, and would rename ours. */
  readonly jobId: string;
  readonly name: string;
  readonly device: string;
  readonly reservedBytes: Known<number>;
  readonly usedBytes: Known<number>;
  readonly peakBytes?: Known<number>;
}

/** Figures of jobs that run, on each of their devices. */
export function jobFamilies(jobs: readonly JobFigures[]): readonly MetricFamily[] {
  const family = (
    name: string,
    help: string,
    of: (job: JobFigures) => Known<number> | undefined,
  ): MetricFamily => ({
    name: `plimsoll_job_${name}_bytes`,
    help,
    type: 'gauge',
    samples: jobs.flatMap((job) => {
      const value = of(job) ?? 'unknown';
      const { engine, jobId, name: called, device } = job;
      const labels = { engine, job_id: jobId, name: called, device };
      return isKnown(value) ? [{ labels, value }] : [];
    }),
  });
  return [
    family('reserved', 'Reserved by a job that runs, on one of its devices.', (job) => {
      return job.reservedBytes;
    }),
    family('used', 'What a job that runs holds of one of its devices.', (job) => job.usedBytes),
    family('peak', 'The most that a job that runs was seen to hold.', (job) => job.peakBytes),
  ];
}
