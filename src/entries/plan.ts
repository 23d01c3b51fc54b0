/**
 * Settings that make a workload fit: batch, checkpointing, precision, quantization, environment.
 *
 * @example
 * import { answerMachine, answerPlan } from 'plimsoll/plan';
 *
 * const plan = await answerPlan({ model: '/models/gpt2', memoryBytes: 24 * 2 ** 30 }, answerMachine());
 *
 * @module
 */

export {
  answerPlan,
  answerPlanWithin,
  type PlanDocument,
  type PlanWithin,
} from '../plan/answers/answer-plan.js';
export type { AnswerMachine } from '../plan/answers/machine.js';
export type { PlanBudget } from '../plan/answers/plan-request.js';
export type { PlanAnswerRequest, WorkloadRequest } from '../plan/answers/workload-request.js';
export { checkEnvironment } from '../plan/environment/check.js';
export { dotenvLines, shellLines } from '../plan/environment/formats.js';
export { environmentSettings } from '../plan/environment/rules.js';
export {
  type EnvironmentContext,
  type EnvironmentFinding,
  type EnvironmentMode,
  type EnvironmentSetting,
  environmentModes,
  type FindingKind,
  type MemoryBudget,
} from '../plan/environment/types.js';
export { bytesToReserve, fitOf, sureBytes } from '../plan/fit/fit.js';
export { planMaxBatch } from '../plan/fit/plan-max-batch.js';
export { planSettings } from '../plan/fit/plan-settings.js';
export type {
  Concession,
  Offload,
  Plan,
  PlanEstimators,
  PlanFacts,
  PlanOption,
  PlanSettings,
  PlanWishes,
  PlanWording,
  ZeroStage,
} from '../plan/fit/types.js';
export {
  asPython,
  bitsAndBytesArguments,
  type ComputeDtype,
  type FromPretrainedArguments,
  type QuantizationMemory,
} from '../plan/quantization/bits-and-bytes.js';
export type { ChooseOptions, PresetChoice, PresetOption } from '../plan/quantization/choose.js';
export { choosePreset } from '../plan/quantization/choose.js';
export type { ModelWeights } from '../plan/quantization/presets.js';
export {
  type PresetFacts,
  presetFacts,
  type TrainingMethod,
} from '../plan/quantization/presets.js';
export { loadQuantization, saveQuantization } from '../plan/quantization/quantization-file.js';
export type { SavedQuantization } from '../plan/quantization/saved-quantization.js';
export { type AnswerMachineOptions, answerMachine } from './answer-machine.js';
