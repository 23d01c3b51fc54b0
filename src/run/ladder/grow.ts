import { formatBytes } from '../../units/bytes.js';
import { isKnown, type Known } from '../../units/known.js';
import { fitMemory, fittingBatch, type Observation } from './fit.js';
import { loadLine } from './smaller-microbatch.js';

/** Clean steps before a larger microbatch is tried; more after each time that it failed. */
const cleanStepsToGrow = 20;

export interface GrowthState {
  readonly microbatch: number;
  /** The batch it is a part of: no microbatch is larger. */
  readonly batch: number;
  readonly cleanSteps: number;
  /** How often growing back ended in an out-of-memory. */
  readonly failedGrowths: number;
  /** The smallest size that ever failed under the conditions of now; it is not tried again. */
  readonly smallestFailed: Known<number>;
  readonly limitBytes: Known<number>;
  readonly baseBytes: Known<number>;
  readonly observations: readonly Observation[];
}

/**
 * Whether the microbatch may grow back, and to what: what fits under the load line by what was
 * measured, at most twice what it is. Undefined where it should stay.
 */
export function growBack(state: GrowthState): { microbatch: number; why: string } | undefined {
  const { microbatch, batch, limitBytes, smallestFailed } = state;
  const patience = cleanStepsToGrow * 2 ** Math.min(state.failedGrowths, 10);
  if (microbatch >= batch || state.cleanSteps < patience || !isKnown(limitBytes)) return undefined;
  const line = fitMemory(
    state.observations.filter(({ isAtLeast }) => !isAtLeast),
    isKnown(state.baseBytes) ? state.baseBytes : undefined,
  );
  if (line === undefined) return undefined;
  const budget = limitBytes * loadLine;
  const ceiling = isKnown(smallestFailed) ? smallestFailed - 1 : batch;
  const most = Math.min(fittingBatch(line, budget), microbatch * 2, ceiling, batch);
  if (most <= microbatch) return undefined;
  return {
    microbatch: most,
    why: `${state.cleanSteps} steps went well; by what was measured ${most} fit under ${formatBytes(Math.round(budget))}`,
  };
}
