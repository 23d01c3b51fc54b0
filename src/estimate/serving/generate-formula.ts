import type { KnownModel } from '../../model/types.js';
import type { Gpu } from '../cards/gpu-table.js';
import type { Estimate } from '../types.js';
import { cacheBytes, widestToken } from './kv-cache.js';
import { calculated, type WeightType, weightBytes, widthOf } from './parts.js';

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
 * What `generate()` needs, from the shapes of the model: the prompt at once, or the last token with
 * all that is cached and one layer of it copied; whichever is more.
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
