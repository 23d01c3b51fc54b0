/**
 * What a model is, and how much memory a workload needs.
 *
 * @example
 * import { answerEstimate, answerMachine } from 'plimsoll/estimate';
 *
 * const { peak } = await answerEstimate({ model: '/models/gpt2', batch: 8, seq: 1024 }, answerMachine());
 *
 * @module
 */

export {
  type Gpu,
  type GpuContext,
  type GpuVendor,
  knownGpus,
} from '../estimate/cards/gpu-table.js';
export { findGpu, type GpuEntry } from '../estimate/cards/gpus.js';
export {
  type EstimateMachine,
  type EstimateMethod,
  type EstimateRequest,
  estimate,
} from '../estimate/estimate.js';
export type { ModelSize, ModelSource, ModelType } from '../estimate/model-source.js';
export { findSavings, type SavingsBasis } from '../estimate/savings.js';
export {
  type Estimate,
  type ModuleBytes,
  type Optimizer,
  optimizers,
  type Part,
  type PartBytes,
  type Precision,
  parts,
  precisions,
  type QuantizationPreset,
  quantizationPresets,
  type Saving,
  type Workload,
} from '../estimate/types.js';
export type { EstimateSetting, Wording } from '../estimate/wording.js';
export { readModel } from '../model/read-model.js';
export type {
  KnownModel,
  Model,
  ModelDescription,
  UnknownModel,
  Weights,
} from '../model/types.js';
export { answerEstimate, type EstimateDocument } from '../plan/answers/answer-estimate.js';
export type { AnswerMachine } from '../plan/answers/machine.js';
export type { RequestField, RequestWording } from '../plan/answers/wording.js';
export type { WorkloadRequest } from '../plan/answers/workload-request.js';
export { type AnswerMachineOptions, answerMachine } from './answer-machine.js';
