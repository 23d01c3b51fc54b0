import type { Attention, KnownModel } from '../../model/model.js';
import { MiB } from '../../units/bytes.js';
import { doubleNf4Bytes, int8Bytes, nf4Bytes } from '../../units/data-types.js';
import { roundUp } from '../allocator/settings.js';
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

/** In what a cache of keys and values is kept, with the bytes of an element and its share of scales. */
export const cacheTypes = {
  fp32: 4,
  bf16: 2,
  fp16: 2,
  fp8: 1,
  /** Blocks of 32 elements with a scale of 16 bits, as llama.cpp packs them. */
  q8_0: 34 / 32,
  q4_0: 18 / 32,
} as const;
export type CacheType = keyof typeof cacheTypes;

interface CacheOptions {
  readonly type: CacheType;
  /** Whether the small vector of latent attention (DeepSeek) is kept, or all heads that it becomes. */
  readonly latent: boolean;
  /** Tokens that a layer with a window holds beyond it. */
  readonly beyondWindow?: number | undefined;
}

/**
 * Bytes of the keys and values of one sequence, in all layers that have any. A layer with a sliding
 * window needs no more than its window.
 *
 * @example
 * cacheBytes(llama3, 1, { type: 'bf16', latent: true }); // 131072: 128 KiB a token
 */
export function cacheBytes(model: KnownModel, tokens: number, options: CacheOptions): number {
  const elements = model.stacks
    .filter(({ role }) => role === 'text' || role === 'decoder')
    .flatMap(({ layers }) => layers)
    .reduce((sum, { count, attention }) => {
      if (attention === undefined) return sum;
      return sum + count * elementsOf(attention, options) * heldTokens(attention, tokens, options);
    }, 0);
  return Math.ceil(elements * cacheTypes[options.type]);
}

function elementsOf(
  { kvHeads, headDim, valueHeadDim = headDim, latent }: Attention,
  options: CacheOptions,
): number {
  return latent !== undefined && options.latent
    ? latent.keyValueRank + latent.ropeDim
    : kvHeads * (headDim + valueHeadDim);
}

function heldTokens({ reach, window }: Attention, tokens: number, options: CacheOptions): number {
  const { beyondWindow = 0 } = options;
  return reach === 'sliding' ? Math.min(tokens, (window ?? tokens) + beyondWindow) : tokens;
}

/** Returns the elements of one token in the widest layer while it is computed. */
export function widestToken({ stacks }: KnownModel): number {
  const layers = stacks.flatMap((stack) => stack.layers);
  return Math.max(
    0,
    ...layers.map(({ hidden, feedForward: { inner, gated, experts } }) => {
      const passed = experts ? experts.active * inner + experts.sharedInner : inner;
      return 2 * hidden + passed * (gated ? 3 : 2);
    }),
  );
}

/** Text that a model of a config writes. */
export interface Generating {
  readonly batch: number;
  /** Tokens that are read first. */
  readonly prompt: number;
  readonly newTokens: number;
  /** 1 takes the likeliest token each time. */
  readonly beams: number;
  readonly precision: WeightType;
}

/** Scores of the next token in 32 bits, their softmax, and what is chosen from them. */
const scoreCopies = 3;

/**
 * Estimates `generate()` from the shapes of the model: the larger of the whole prompt at once, and
 * the last token with the full cache and one layer of it copied.
 *
 * @example
 * generateFormula(llama, { batch: 8, prompt: 512, newTokens: 256, beams: 1, precision: 'bf16' }, gpu);
 */
export function generateFormula(model: KnownModel, asked: Generating, gpu: Gpu): Estimate {
  const { batch, prompt, newTokens, beams, precision } = asked;
  const rows = batch * beams;
  const cached = (tokens: number) =>
    rows * cacheBytes(model, tokens, { type: precision, latent: false });
  const layers = model.stacks.flatMap((stack) => stack.layers);
  const count = layers.reduce((sum, layer) => sum + layer.count, 0);
  const scores = rows * model.outputs * 4 * scoreCopies;
  const prefill = {
    cache: cached(prompt),
    work: rows * prompt * widestToken(model) * widthOf(precision),
  };
  const whole = cached(prompt + newTokens);
  const last = { cache: whole, work: Math.ceil(whole / Math.max(1, count)) + scores };
  const { cache, work } = prefill.cache + prefill.work > last.cache + last.work ? prefill : last;
  return calculated(
    [
      { part: 'weights', bytes: weightBytes(model, precision, undefined) },
      { part: 'activations', bytes: work },
      { part: 'workspace', bytes: gpu.workspaceBytes },
      { part: 'kv-cache', bytes: cache },
    ],
    gpu,
    [
      'Calculated from the shapes of the model, as generate() of transformers runs it: the prompt at once, then one token at a time with a cache that grows.',
      ...model.notes,
    ],
  );
}
