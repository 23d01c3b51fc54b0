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

export {
  type AdaptiveBatches,
  type AdaptiveBatchesOptions,
  adaptiveBatches,
} from '../batches/adaptive-batches.js';
export {
  deviceMemoryPercent,
  hostMemoryPercent,
  type MemoryProbe,
} from '../batches/memory-percent.js';
export { isOutOfMemoryError } from '../batches/out-of-memory-error.js';
export {
  type Microbatch,
  type RecoveringStep,
  type RecoveringStepOptions,
  recoveringStep,
  type StepResult,
} from '../batches/recovering-step.js';
export type { SampleSource } from '../batches/sample-source.js';
