import type { QuantizationPreset } from '../../estimate/types.js';
import type { QuantizationMemory } from './bits-and-bytes.js';
import type { ModelWeights } from './preset-bytes.js';
import type { TrainingMethod } from './presets.js';

export interface ChooseOptions extends ModelWeights {
  /** What is free on the GPU; 0 where there is none. */
  readonly freeBytes: number;
  readonly hostFreeBytes: number;
  readonly forTraining: boolean;
  /** What the job takes beside weights and their states, where it is known: activations, context. */
  readonly workingBytes?: number | undefined;
}

/** A preset that was considered, with the bytes it would take. All of them are estimated. */
export interface PresetOption {
  readonly preset: QuantizationPreset;
  readonly training: TrainingMethod | 'none';
  readonly fits: boolean;
  readonly gpuBytes: number;
  readonly hostBytes: number;
}

export interface PresetChoice {
  readonly preset: QuantizationPreset | 'none';
  readonly training: TrainingMethod | 'none';
  readonly reason: string;
  /** For `bitsAndBytesArguments`: what the weights may take. */
  readonly memory: QuantizationMemory;
  /** All that were considered, the chosen one too, the most precise first. */
  readonly alternatives: readonly PresetOption[];
}
