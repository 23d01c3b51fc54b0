import { Failure } from '../failure.js';
import { formatBytes } from '../units/bytes.js';
import { isKnown, type Known } from '../units/known.js';

/** GPUs of one type that nodes of a cluster have. */
interface Offered {
  /** On one node. */
  readonly count: number;
  readonly capacityBytes: Known<number>;
}

export function noSuchGpus(gpus: number, offers: readonly Offered[]): Failure {
  const most = Math.max(0, ...offers.map(({ count }) => count));
  return new Failure({
    kind: 'missing',
    code: 'no-such-gpu',
    fact:
      most === 0
        ? 'No node of this cluster that takes jobs has a GPU.'
        : `No node of this cluster has ${gpus} GPUs of one type; the most is ${most}.`,
    next: most === 0 ? 'Use --gpus 0 for a job without a GPU.' : `Use --gpus ${most} or fewer.`,
  });
}

export function tooLarge(bytes: number, offers: readonly Offered[]): Failure {
  const most = Math.max(
    ...offers.map(({ capacityBytes }) => (isKnown(capacityBytes) ? capacityBytes : 0)),
  );
  return new Failure({
    kind: 'job',
    code: 'does-not-fit',
    fact: `The job needs ${formatBytes(bytes)} on each GPU, and the largest GPU of this cluster has ${formatBytes(most)}.`,
    next: 'Use a smaller batch ("plimsoll plan" finds one), or more GPUs with a sharded program.',
  });
}
