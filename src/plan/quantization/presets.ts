import { doubleNf4Bytes, int8Bytes, nf4Bytes } from '../../estimate/quantization-bytes.js';
import type { QuantizationPreset } from '../../estimate/types.js';

/** What can be trained: all parameters, or small adapters beside frozen weights. */
export type TrainingMethod = 'full' | 'lora';

/** What a preset means. */
export interface PresetFacts {
  readonly meaning: string;
  /** Where the weights are kept. */
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
