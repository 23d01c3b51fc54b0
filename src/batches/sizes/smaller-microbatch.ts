import { defaultLoadLine } from '../../device/load-line.js';
import { formatBytes } from '../../units/bytes.js';
import { isKnown, type Known } from '../../units/known.js';
import { fitMemory, fittingBatch, type Observation } from './fit.js';

/** All that is known of a size that ran out of memory. */
export interface FailedSize {
  readonly microbatch: number;
  /** The most that was held until it failed, and what was asked for when it did. */
  readonly peakBytes: Known<number>;
  readonly askedBytes: Known<number>;
  /** What was held when it failed; where that is unknown, the peak is taken. */
  readonly heldBytes?: Known<number>;
  readonly limitBytes: Known<number>;
  /** What is held before the first sample: weights, optimizer. */
  readonly baseBytes: Known<number>;
  /** Of the same run with the same other settings, this failure not among them. */
  readonly earlier: readonly Observation[];
}

export interface SmallerSize {
  readonly most: number;
  readonly why: string;
}

/**
 * How large a microbatch may be after one that failed: by what was measured. Undefined at 1.
 *
 * By the line through the measured peaks; where that says that the failed size fits, the largest size
 * that did fit, or a quarter. Where only the failure itself is known, its need is a lower bound, so at
 * most half is tried; a request far beyond the limit goes down farther in one step. Half of an odd size
 * is rounded up: an odd batch is then two parts, not three, and 2 is tried between 3 and 1.
 */
export function smallerMicrobatch(failed: FailedSize): SmallerSize | undefined {
  const { microbatch, limitBytes } = failed;
  if (microbatch <= 1) return undefined;
  const half = Math.ceil(microbatch / 2);
  if (!isKnown(limitBytes)) {
    return { most: half, why: `${microbatch} did not fit, and no limit is known: half of it` };
  }
  const budget = limitBytes * defaultLoadLine;
  const base = isKnown(failed.baseBytes) ? failed.baseBytes : undefined;
  const clean = failed.earlier.filter(({ isAtLeast }) => !isAtLeast);
  const fitted = clean.filter(
    ({ batch, peakBytes }) => batch < microbatch && peakBytes <= limitBytes,
  );
  const proven = Math.max(0, ...fitted.map(({ batch }) => batch));
  const measured = fitMemory(clean, base);
  const byLine = measured === undefined ? 0 : fittingBatch(measured, budget);
  if (measured !== undefined && byLine < microbatch && byLine > proven) {
    return {
      most: byLine,
      why: `${microbatch} did not fit; measured: ${formatBytes(Math.round(measured.baseBytes))} and ${formatBytes(Math.round(measured.perSampleBytes))} a sample, so ${byLine} fit under ${formatBytes(Math.round(budget))}`,
    };
  }
  if (proven > 0) {
    // A line by which the size that failed would have fitted is refuted: what went well is still true.
    const quarter = byLine < microbatch ? 0 : Math.floor(microbatch / 4);
    if (proven < quarter)
      return { most: quarter, why: `${microbatch} did not fit: a quarter of it` };
    return { most: proven, why: `${microbatch} did not fit, and ${proven} did before` };
  }
  const needed = neededAtLeast(failed, limitBytes);
  const line = fitMemory([{ batch: microbatch, peakBytes: needed, isAtLeast: true }], base);
  // What is held anyway may pass the load line: then no size stays under it, and half is tried.
  const isRoom = line !== undefined && line.baseBytes < budget;
  const byNeed = isRoom ? fittingBatch(line, budget) : half;
  const most = Math.max(1, Math.min(half, byNeed));
  const more =
    needed > limitBytes
      ? `at least ${formatBytes(needed)} of ${formatBytes(limitBytes)}`
      : `more than the ${formatBytes(limitBytes)} there are`;
  // Where neither was read, a limit of the program's own may have been reached, such as Node's heap.
  const isRead = isKnown(failed.peakBytes) || isKnown(failed.askedBytes);
  return { most, why: isRead ? `${microbatch} needed ${more}` : `${microbatch} did not fit` };
}

function neededAtLeast(failed: FailedSize, limitBytes: number): number {
  const asked = isKnown(failed.askedBytes) ? failed.askedBytes : 0;
  const peak = isKnown(failed.peakBytes) ? failed.peakBytes : limitBytes;
  const { heldBytes = 'unknown' } = failed;
  const held = isKnown(heldBytes) ? heldBytes : peak;
  return Math.max(limitBytes, peak, held + asked);
}
