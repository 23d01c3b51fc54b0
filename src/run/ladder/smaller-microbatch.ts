import { formatBytes } from '../../units/bytes.js';
import { isKnown, type Known } from '../../units/known.js';
import { fitMemory, fittingBatch, type Observation } from './fit.js';

/** The share of a limit that a job should fill: beyond it lies what was not foreseen. */
export const loadLine = 0.9;

/** All that is known of a size that ran out of memory. */
export interface FailedSize {
  readonly microbatch: number;
  /** What the memory was when it failed, and what was asked on top. */
  readonly peakBytes: Known<number>;
  readonly askedBytes: Known<number>;
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
 * Where only the failure itself is known, its need is a lower bound, so at most half is tried; a
 * request far beyond the limit goes down farther in one step.
 */
export function smallerMicrobatch(failed: FailedSize): SmallerSize | undefined {
  const { microbatch, limitBytes } = failed;
  if (microbatch <= 1) return undefined;
  const half = Math.floor(microbatch / 2);
  if (!isKnown(limitBytes)) {
    return { most: half, why: `${microbatch} did not fit, and no limit is known: half of it` };
  }
  const budget = limitBytes * loadLine;
  const base = isKnown(failed.baseBytes) ? failed.baseBytes : undefined;
  const clean = failed.earlier.filter(({ isAtLeast }) => !isAtLeast);
  const measured = fitMemory(clean, base);
  const byLine = measured === undefined ? microbatch : fittingBatch(measured, budget);
  // A line by which the size that failed would have fitted is refuted: what went well is still true.
  if (measured !== undefined && byLine < microbatch) {
    const most = Math.max(1, byLine);
    return {
      most,
      why: `${microbatch} did not fit; measured: ${formatBytes(Math.round(measured.baseBytes))} and ${formatBytes(Math.round(measured.perSampleBytes))} a sample, so ${most} fit under ${formatBytes(Math.round(budget))}`,
    };
  }
  const proven = Math.max(0, ...clean.map(({ batch }) => batch).filter((n) => n < microbatch));
  if (proven > 0)
    return { most: proven, why: `${microbatch} did not fit, and ${proven} did before` };
  const needed = neededAtLeast(failed, limitBytes);
  const line = fitMemory([{ batch: microbatch, peakBytes: needed, isAtLeast: true }], base);
  const byNeed = line === undefined ? half : fittingBatch(line, budget);
  const most = Math.max(1, Math.min(half, byNeed));
  const more =
    needed > limitBytes
      ? `at least ${formatBytes(needed)} of ${formatBytes(limitBytes)}`
      : `more than the ${formatBytes(limitBytes)} there are`;
  return { most, why: `${microbatch} needed ${more}` };
}

function neededAtLeast(failed: FailedSize, limitBytes: number): number {
  const asked = isKnown(failed.askedBytes) ? failed.askedBytes : 0;
  const held = isKnown(failed.peakBytes) ? failed.peakBytes : limitBytes;
  return Math.max(limitBytes, held + asked, asked);
}
