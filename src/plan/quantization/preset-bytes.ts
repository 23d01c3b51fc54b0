import type { QuantizationPreset } from '../../estimate/types.js';
import { presetFacts, type TrainingMethod } from './presets.js';

/** A model, as far as the size of its weights goes. */
export interface ModelWeights {
  readonly parameters: number;
  /** All weights in 16 bits, where it is known better than 2 bytes a parameter. */
  readonly weightBytesFp16?: number | undefined;
  /** Those that are never quantized: embeddings, head, norms. Estimated when left out. */
  readonly keptParameters?: number | undefined;
}

/** AdamW with all in bf16: weights, gradients and two states, of 2 bytes each. */
const fullTrainingFactor = 4;
/** LoRA of usual rank (8 to 64) on all linear layers stays below a hundredth of a large model. */
const loraShare = 0.01;
/** Adapters are fp32: weight, gradient and two states of AdamW. */
const loraBytesPerParameter = 16;

/** Bytes of the weights alone. */
export function weightBytes(preset: QuantizationPreset, model: ModelWeights): number {
  const { bytesPerParameter, quantized } = presetFacts[preset];
  const all = fp16Bytes(model);
  if (!quantized) return Math.ceil((all * bytesPerParameter) / 2);
  const kept = keptBytes(model);
  return Math.ceil(kept + ((all - kept) * bytesPerParameter) / 2);
}

/** Weights with what training adds to them: gradients, optimizer, adapters. */
export function stateBytes(
  preset: QuantizationPreset,
  model: ModelWeights,
  training: TrainingMethod | 'none',
): number {
  const weights = weightBytes(preset, model);
  if (training === 'full') return weights * fullTrainingFactor;
  if (training === 'none') return weights;
  return weights + Math.ceil(model.parameters * loraShare * loraBytesPerParameter);
}

export function fp16Bytes({ parameters, weightBytesFp16 }: ModelWeights): number {
  return weightBytesFp16 ?? parameters * 2;
}

/** 16-bit bytes of what is never quantized. */
export function keptBytes(model: ModelWeights): number {
  const { parameters, keptParameters = estimatedKept(parameters) } = model;
  const share = parameters === 0 ? 0 : Math.min(1, keptParameters / parameters);
  return Math.ceil(fp16Bytes(model) * share);
}

/**
 * A vocabulary of 128k and 2048 wide makes 0.26 of the 1.24 billion parameters of Llama 3.2 1B, and
 * 32k by 4096, in and out, 0.26 of the 6.7 billion of Llama 2 7B. This is above both.
 */
function estimatedKept(parameters: number): number {
  return Math.min(parameters / 2, 0.05 * parameters + 0.21e9);
}
