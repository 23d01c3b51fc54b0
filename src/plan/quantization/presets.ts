import type { QuantizationPreset } from '../../estimate/types.js';
import { doubleNf4Bytes, int8Bytes, nf4Bytes } from '../../units/data-types.js';

/** The trained parameters: all, or small adapters beside frozen weights. */
export type TrainingMethod = 'full' | 'lora';

/** The meaning of a preset. */
export interface PresetFacts {
  readonly meaning: string;
  /** The place of the weights. */
  readonly weights: 'gpu' | 'host' | 'both';
  /** A quantized parameter with its share of the scales; embeddings, head and norms keep 2 bytes. */
  readonly bytesPerParameter: number;
  readonly quantized: boolean;
  /** The best way first; none where it is for inference only. */
  readonly training: readonly TrainingMethod[];
  /** Arguments of transformers' `BitsAndBytesConfig`; none where nothing is quantized. */
  readonly config: Readonly<Record<string, boolean | string>>;
}

const nf4 = { load_in_4bit: true, bnb_4bit_quant_type: 'nf4' };

/** From the most precise to the smallest; `cpu` is precise, and slow. */
export const presetFacts: Readonly<Record<QuantizationPreset, PresetFacts>> = {
  cpu: {
    meaning: 'Weights in 32 bits in the memory of the host; no GPU is used.',
    weights: 'host',
    bytesPerParameter: 4,
    quantized: false,
    training: ['full'],
    config: {},
  },
  fp16: {
    meaning: 'Weights in 16 bits: bfloat16, or float16 on cards before Ampere.',
    weights: 'gpu',
    bytesPerParameter: 2,
    quantized: false,
    training: ['full', 'lora'],
    config: {},
  },
  int8: {
    meaning: 'LLM.int8(): 8 bits with a scale for each row; outliers are computed in 16 bits.',
    weights: 'gpu',
    bytesPerParameter: int8Bytes,
    quantized: true,
    training: ['lora'],
    config: { load_in_8bit: true },
  },
  int4: {
    meaning: 'NF4: 4 bits with a scale for each 64 weights.',
    weights: 'gpu',
    bytesPerParameter: nf4Bytes,
    quantized: true,
    training: ['lora'],
    config: { ...nf4, bnb_4bit_use_double_quant: false },
  },
  int4_double: {
    meaning: 'NF4 whose scales are quantized once more.',
    weights: 'gpu',
    bytesPerParameter: doubleNf4Bytes,
    quantized: true,
    training: ['lora'],
    config: { ...nf4, bnb_4bit_use_double_quant: true },
  },
  int4_offload: {
    meaning: 'NF4 with double quantization; layers that do not fit wait on the host in 16 bits.',
    weights: 'both',
    bytesPerParameter: doubleNf4Bytes,
    quantized: true,
    training: [],
    config: {
      ...nf4,
      bnb_4bit_use_double_quant: true,
      llm_int8_enable_fp32_cpu_offload: true,
    },
  },
};

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
