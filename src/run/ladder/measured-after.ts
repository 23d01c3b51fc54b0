import { fitMemory, fittingBatch } from '../../batches/sizes/fit.js';
import type { SmallerSize } from '../../batches/sizes/smaller-microbatch.js';
import { defaultLoadLine } from '../../device/load-line.js';
import { formatBytes } from '../../units/bytes.js';
import { isKnown, type Known } from '../../units/known.js';
import type { MeasuredSize } from '../types.js';

/** A size whose step was made needs less room to spare than one that a line foretells. */
const madeLine = 0.95;

/**
 * How large a batch may be, by steps of a few samples that the failed process made before it ended: by
 * the line through its two largest, since the peak of the smallest may be a temporary tensor that all
 * sizes have; or one of these sizes itself, where it leaves a twentieth of the limit. Undefined where
 * they tell nothing, or say that the batch that failed fits: then they are refuted.
 *
 * @example
 * fitsByMeasure(12, [{ microbatch: 1, peakBytes: 3 * GiB }, { microbatch: 2, peakBytes: 4 * GiB }], 5 * GiB)?.most; // 2
 */
export function fitsByMeasure(
  failed: number,
  sizes: readonly MeasuredSize[],
  limitBytes: Known<number>,
): SmallerSize | undefined {
  if (failed <= 1 || sizes.length < 2 || !isKnown(limitBytes)) return undefined;
  const largest = sizes.toSorted((a, b) => a.microbatch - b.microbatch).slice(-2);
  const line = fitMemory(
    largest.map(({ microbatch, peakBytes }) => ({
      batch: microbatch,
      peakBytes,
      isAtLeast: false,
    })),
  );
  if (line?.from !== 'two sizes') return undefined;
  const made = largest.findLast(
    ({ microbatch, peakBytes }) => microbatch < failed && peakBytes <= limitBytes * madeLine,
  );
  const foretold = fittingBatch(line, limitBytes * defaultLoadLine);
  const [fits, budget] =
    made !== undefined && made.microbatch > foretold
      ? [made.microbatch, limitBytes * madeLine]
      : [foretold, limitBytes * defaultLoadLine];
  if (fits >= failed) return undefined;
  const most = Math.max(1, fits);
  const found = fits < 1 ? 'not even one fits' : `${fits} fit`;
  return {
    most,
    why: `${failed} did not fit; measured after it failed: ${bytes(line.baseBytes)} and ${bytes(line.perSampleBytes)} a sample, so ${found} under ${bytes(budget)}`,
  };
}

function bytes(value: number): string {
  return formatBytes(Math.round(value));
}
