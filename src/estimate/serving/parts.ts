import type { KnownModel } from '../../model/types.js';
import { MiB } from '../../units/bytes.js';
import { doubleNf4Bytes, int8Bytes, nf4Bytes } from '../../units/data-types.js';
import { roundUp } from '../allocator/sizes.js';
import { assembleEstimate } from '../assemble.js';
import type { Gpu } from '../cards/gpu-table.js';
import type { Estimate, PartBytes, Precision, QuantizationPreset } from '../types.js';

/** The types that weights are loaded in to serve or to generate. */
export const weightTypes = ['fp32', 'bf16', 'fp16'] as const satisfies readonly Precision[];
export type WeightType = (typeof weightTypes)[number];

export function widthOf(type: WeightType): number {
  return type === 'fp32' ? 4 : 2;
}

const packed: Partial<Record<QuantizationPreset, number>> = {
  int8: int8Bytes,
  int4: nf4Bytes,
  int4_double: doubleNf4Bytes,
};

/** Weights in a type; with a preset, matrices of linear layers are packed and embeddings stay. */
export function weightBytes(
  model: KnownModel,
  type: WeightType,
  quantization: QuantizationPreset | undefined,
): number {
  const each = quantization === undefined ? undefined : packed[quantization];
  const plain = widthOf(type);
  if (each === undefined) return model.parameters * plain;
  const linear = model.tensors
    .filter(({ shape, name }) => shape.length === 2 && !/embed|wte|wpe|lm_head/.test(name))
    .reduce((sum, { shape, count }) => sum + count * shape.reduce((all, one) => all * one, 1), 0);
  return Math.ceil(linear * each + (model.parameters - linear) * plain);
}

/** How far such a calculation may be off; nothing of it was measured. */
const lowShare = 0.05;
const highShare = 0.15;

/** An estimate of parts that add up; the device loses them and the context. */
export function calculated(
  parts: readonly PartBytes[],
  gpu: Gpu,
  notes: readonly string[],
): Estimate {
  const allocatedBytes = parts.reduce((sum, { bytes }) => sum + bytes, 0);
  const reservedBytes = roundUp(allocatedBytes, 2 * MiB);
  const live = new Map(parts.map(({ part, bytes }) => [part, bytes]));
  const figures = { gpu, allocatedBytes, reservedBytes, live, notes };
  return assembleEstimate({
    ...figures,
    method: 'formula',
    interval: {
      lowBytes: Math.floor(reservedBytes * (1 - lowShare)),
      highBytes: Math.ceil(reservedBytes * (1 + highShare)),
      confidence: 0.95,
    },
  });
}
