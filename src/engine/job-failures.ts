import { Failure } from '../failure.js';
import { formatBytes } from '../units/bytes.js';
import { isKnown, type Known } from '../units/known.js';
import { type ClusterJob, hasClusterEnded } from './cluster.js';

export function unknownJob(id: string, engine: string, title: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'unknown-job',
    fact: `There is no job ${id} that plimsoll submitted to ${title} from this home.`,
    next: `"plimsoll jobs --engine ${engine}" lists them.`,
  });
}

export function unreadableJob(path: string, title: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'unreadable-job',
    fact: `${path}/job.json cannot be read.`,
    next: `Remove that folder; ${title} still has the job.`,
  });
}

/** Refuses to cancel an ended job; tries it for a job of unknown state. */
export function refuseEnded({ id, state }: ClusterJob): void {
  if (!hasClusterEnded(state) || state === 'unknown') return;
  throw new Failure({
    kind: 'input',
    code: 'job-has-ended',
    fact: `Job ${id} is ${state} already.`,
    next: 'Nothing needs to be done.',
  });
}

/** GPUs of one type that nodes of a cluster have. */
interface Offered {
  /** On one node. */
  readonly count: number;
  readonly capacityBytes: Known<number>;
}

/** The part of a cluster that a job can use. */
export interface Place {
  /** In words. */
  readonly place: string;
  /** Excluded parts, each with the reason. */
  readonly closed: readonly string[];
}

export const wholeCluster: Place = { place: 'this cluster', closed: [] };

function closedWords(closed: readonly string[]): string {
  return closed.length === 0 ? '' : ` Closed to this job: ${closed.join(', ')}.`;
}

export function noSuchGpus(
  gpus: number,
  offers: readonly Offered[],
  { place, closed }: Place = wholeCluster,
): Failure {
  const most = Math.max(0, ...offers.map(({ count }) => count));
  return new Failure({
    kind: 'missing',
    code: 'no-such-gpu',
    fact:
      most === 0
        ? `No node of ${place} that takes this job has a GPU.${closedWords(closed)}`
        : `No node of ${place} has ${gpus} GPUs of one type; the most is ${most}.${closedWords(closed)}`,
    next: most === 0 ? 'Use --gpus 0 for a job without a GPU.' : `Use --gpus ${most} or fewer.`,
  });
}

export function tooLarge(
  bytes: number,
  offers: readonly Offered[],
  { place, closed }: Place = wholeCluster,
): Failure {
  const most = Math.max(
    ...offers.map(({ capacityBytes }) => (isKnown(capacityBytes) ? capacityBytes : 0)),
  );
  return new Failure({
    kind: 'job',
    code: 'does-not-fit',
    fact: `The job needs ${formatBytes(bytes)} on each GPU, and the largest GPU of ${place} has ${formatBytes(most)}.${closedWords(closed)}`,
    next: 'Use a smaller batch ("plimsoll plan" finds one), or more GPUs with a sharded program.',
  });
}
