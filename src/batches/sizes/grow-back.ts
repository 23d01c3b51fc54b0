import { defaultLoadLine } from '../../device/load-line.js';
import { formatBytes } from '../../units/bytes.js';
import { isKnown, type Known } from '../../units/known.js';
import { fitMemory, fittingBatch, type Observation } from './fit.js';

/** Clean steps before a size is tried that was not seen to fail, or that failed long ago. */
export const cleanStepsToGrow = 20;

/** A size below the one that failed is tried as soon as the peaks of so many steps were measured. */
const cleanStepsToSettle = 2;

/** Growing failed again and again: no wait is longer than this many steps. */
const longestWait = 4096;

export interface GrowthState {
  readonly microbatch: number;
  /** The batch it is a part of: no microbatch is larger. */
  readonly batch: number;
  readonly cleanSteps: number;
  /** How often growing back ended in an out-of-memory. */
  readonly failedGrowths: number;
  /** The smallest size that failed, and did not fit since. */
  readonly smallestFailed: Known<number>;
  readonly limitBytes: Known<number>;
  readonly baseBytes: Known<number>;
  readonly observations: readonly Observation[];
  readonly growAfter?: number;
  /** Whether a size may be tried though nothing was measured: a failure must cost little. */
  readonly mayGuess?: boolean;
}

/**
 * Whether the microbatch may grow back, and to what: what fits under the load line by what was
 * measured, at most twice what it is. Undefined where it should stay.
 *
 * Halving after a failure goes too far down, so sizes between what fits and what failed are tried
 * soon: up to the line, or half way where the line says that even the failed size fits. At the size
 * that failed, and beyond it, only after many clean steps. Each growth that failed doubles the wait.
 */
export function growBack(state: GrowthState): { microbatch: number; why: string } | undefined {
  const { microbatch, batch, limitBytes, smallestFailed, cleanSteps } = state;
  if (microbatch >= batch) return undefined;
  const budget = isKnown(limitBytes) ? limitBytes * defaultLoadLine : 'unknown';
  const fits = isKnown(budget) ? fittingByLine(state, budget) : 'unknown';
  if (!isKnown(fits) && state.mayGuess !== true) return undefined;
  const most = Math.min(batch, microbatch * 2, isKnown(fits) ? fits : batch);
  const failed = isKnown(smallestFailed) ? smallestFailed : Number.POSITIVE_INFINITY;
  const below = most >= failed ? Math.floor((microbatch + failed) / 2) : most;
  // A size that makes no fewer parts would change nothing.
  const isFewer = (size: number) => partsOf(batch, size) < partsOf(batch, microbatch);
  const target = isFewer(below) ? below : most;
  const isSoon = isKnown(smallestFailed) && target < failed && isKnown(fits);
  const after = state.growAfter ?? cleanStepsToGrow;
  const needed = isSoon ? Math.min(after, cleanStepsToSettle) : after;
  const wait = Math.min(longestWait, needed * 2 ** Math.min(state.failedGrowths, 12));
  if (cleanSteps < wait || !isFewer(target)) return undefined;
  const basis =
    isKnown(fits) && isKnown(budget)
      ? `by what was measured ${target} fit under ${formatBytes(Math.round(budget))}`
      : `${target} were not tried since`;
  return { microbatch: target, why: `${cleanSteps} steps went well; ${basis}` };
}

function fittingByLine(state: GrowthState, budgetBytes: number): Known<number> {
  const line = fitMemory(
    state.observations.filter(({ isAtLeast }) => !isAtLeast),
    isKnown(state.baseBytes) ? state.baseBytes : undefined,
  );
  return line === undefined ? 'unknown' : fittingBatch(line, budgetBytes);
}

/**
 * The size of the largest part when a batch is cut into as few parts as fit, all of nearly the same
 * size: no part is much smaller than the others, so that no lone sample is left for BatchNorm.
 *
 * @example
 * evenPart(9, 8); // 5: parts of 5 and 4
 */
export function evenPart(batch: number, most: number): number {
  if (batch <= 0) return 0;
  return Math.ceil(batch / partsOf(batch, most));
}

/** How many parts of at most this size a batch has. */
function partsOf(batch: number, most: number): number {
  return Math.ceil(batch / Math.max(1, most));
}
