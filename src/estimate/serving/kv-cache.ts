import type { Attention, KnownModel } from '../../model/types.js';

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

export interface CacheOptions {
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

/** What the widest layer holds of one token while it is computed, in elements. */
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
