import { GiB, MiB } from '../../units/bytes.js';
import { isKnown, type Known } from '../../units/known.js';
import { hostNeedBytes } from '../host-need.js';
import type { SlurmNodes } from './nodes.js';

/** What a job with GPUs asks of its node beside them; `default` where the site decides. */
export interface HostShare {
  /** In MiB, as Slurm counts. */
  readonly memoryMebibytes: number | 'default';
  readonly cpus: number | 'default';
}

/** Sites keep some processors and memory of a node for themselves, and do not say so in `sinfo`. */
const forJobs = 0.9;
/** Where a site does not state the memory of its nodes, Slurm counts 1 MiB. */
const leastStatedBytes = GiB;

/**
 * As much of the node as of its GPUs: what is left would be of no use to other jobs with GPUs. At least
 * the memory that the job needs by a rule. Where nothing is asked, Slurm may give one processor and,
 * at sites without a default, all memory of the node, so that no other job starts beside it.
 *
 * @example
 * hostShare(nodes, { share: 1 / 8, gpus: 1, needBytes }); // { memoryMebibytes: 230400, cpus: 14 }
 */
export function hostShare(
  { cpus, memoryBytes }: Pick<SlurmNodes, 'cpus' | 'memoryBytes'>,
  job: {
    /** Of the GPUs of the node, from 0 to 1. */
    readonly share: number;
    readonly gpus: number;
    readonly needBytes: Known<number>;
  },
): HostShare {
  const share = job.share * forJobs;
  return {
    memoryMebibytes:
      isKnown(memoryBytes) && memoryBytes >= leastStatedBytes
        ? Math.floor(memoryFor(memoryBytes, share, hostNeedBytes(job.gpus, job.needBytes)) / MiB)
        : 'default',
    cpus: isKnown(cpus) && cpus * share >= 2 ? Math.floor(cpus * share) : 'default',
  };
}

function memoryFor(memoryBytes: number, share: number, leastBytes: number): number {
  return Math.min(memoryBytes * forJobs, Math.max(memoryBytes * share, leastBytes));
}

/** The least of several, so that each of the nodes could take the job. */
export function leastHostShare(shares: readonly HostShare[]): HostShare {
  return {
    memoryMebibytes: least(shares.map(({ memoryMebibytes }) => memoryMebibytes)),
    cpus: least(shares.map(({ cpus }) => cpus)),
  };
}

function least(counts: readonly (number | 'default')[]): number | 'default' {
  const stated = counts.filter((count) => count !== 'default');
  return stated.length < counts.length || stated.length === 0 ? 'default' : Math.min(...stated);
}
