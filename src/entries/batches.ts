/**
 * Batches that follow the memory, and steps that survive an out-of-memory, in a Node program.
 *
 * @example
 * import { recoveringStep } from 'plimsoll/batches';
 *
 * const step = recoveringStep(async (samples, { share }) => share * (await lossOf(samples)));
 *
 * @module
 */

export type { SampleSource } from '../batches/adaptive-batches.js';
export {
  type AdaptiveBatches,
  type AdaptiveBatchesOptions,
  adaptiveBatches,
  deviceMemoryPercent,
  hostMemoryPercent,
  type MemoryProbe,
} from '../batches/adaptive-batches.js';
export {
  isOutOfMemoryError,
  type Microbatch,
  type RecoveringStep,
  type RecoveringStepOptions,
  recoveringStep,
  type StepResult,
} from '../batches/recovering-step.js';
