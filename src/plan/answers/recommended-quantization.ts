import type { Gpu } from '../../estimate/cards/gpu-table.js';
import type { Model } from '../../model/types.js';
import { isKnown } from '../../units/known.js';
import type { PresetChoice } from '../quantization/choice.js';
import { choosePreset } from '../quantization/choose.js';
import type { OpenWorkload } from './read-workload.js';

/** The most precise way to hold the weights that fits a card. */
export type RecommendedQuantization = Pick<PresetChoice, 'preset' | 'training' | 'reason'>;

/** Absent where the number of parameters is not known, or weights are packed already. */
export function recommendation(
  model: Model | undefined,
  { mode = 'train' }: OpenWorkload,
  gpu: Gpu,
  { hostBytes }: { readonly hostBytes: number },
): RecommendedQuantization | undefined {
  if (model === undefined || model.weights?.format === 'gguf') return undefined;
  const { parameters } = model.description;
  if (!isKnown(parameters)) return undefined;
  const { preset, training, reason } = choosePreset({
    parameters,
    freeBytes: gpu.capacityBytes,
    hostFreeBytes: hostBytes,
    forTraining: mode === 'train',
  });
  return { preset, training, reason };
}
