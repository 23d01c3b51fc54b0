import { Failure } from '../../failure.js';
import type { ConfigValues } from '../config/config-fields.js';

/** More than any model has, with sums that stay exact. */
const maxParameters = 1e14;
const factors: Readonly<Record<string, number>> = { k: 1e3, m: 1e6, b: 1e9, t: 1e12 };

/**
 * A number of parameters as people write it: `22b`, `350M`, `1.1B`, `8x7b`, or all digits.
 *
 * @example
 * parseParameters('22b'); // 22_000_000_000
 */
export function parseParameters(text: string): number {
  const match = /^(?:(\d{1,3})x)?(\d{1,15}(?:\.\d{1,6})?)([kmbt]?)$/i.exec(text.trim());
  const count = match === null ? 0 : countOf(match[1], match[2], match[3]);
  if (count >= 1 && count <= maxParameters) return count;
  throw new Failure({
    kind: 'input',
    code: 'bad-parameters',
    fact: `"${text.slice(0, 40)}" is not a number of parameters.`,
    next: 'Write it as 22b, 350m or 1100000000.',
  });
}

/**
 * The number of parameters that a name tells: the first word of it that is a number with `m` or `b`.
 *
 * @example
 * parametersInName('acme/banana-22b-chat'); // 22_000_000_000
 */
export function parametersInName(name: string): number | undefined {
  const own = name.slice(name.lastIndexOf('/') + 1);
  const match = /(?:^|[-_\s:])(?:(\d{1,3})x)?(\d{1,4}(?:\.\d{1,3})?)([mb])(?![a-z0-9])/i.exec(own);
  const count = match === null ? 0 : countOf(match[1], match[2], match[3]);
  return count >= 1 ? count : undefined;
}

function countOf(experts = '1', number = '0', unit = ''): number {
  return Math.round(Number(experts) * Number(number) * (factors[unit.toLowerCase()] ?? 1));
}

/** Widths of published decoders by their number of parameters, in between by the logarithm. */
const widths: readonly (readonly [parameters: number, hidden: number])[] = [
  [1e6, 128],
  [1e8, 640],
  [5e8, 1024],
  [1.2e9, 2048],
  [3e9, 2816],
  [7.5e9, 4096],
  [14e9, 5120],
  [33e9, 6656],
  [70e9, 8192],
  [400e9, 16_384],
];
/** Of the width: SwiGLU as Llama has it. */
const innerShare = 3.5;
const vocabulary = 64_000;
/** Smaller models share the matrix of the embedding with the head. */
const untiedFrom = 2e9;
const maxLayers = 160;

/**
 * The config of a usual decoder with about that many parameters: for those who know no more of a
 * model. Llama and what came after it look alike enough for that.
 *
 * @example
 * usualDecoder(7e9).hidden_size; // 4096
 */
export function usualDecoder(parameters: number): ConfigValues {
  const headDim = parameters < 1e9 ? 64 : 128;
  const hidden = Math.max(headDim, Math.round(widthOf(parameters) / headDim) * headDim);
  const heads = hidden / headDim;
  const tied = parameters < untiedFrom;
  // A vocabulary may not be most of a tiny model.
  const tokens = Math.max(256, Math.min(vocabulary, Math.floor(parameters / 4 / hidden)));
  const kvHeads = largestDivisor(heads, heads / 4);
  const attention = 2 * hidden ** 2 + 2 * hidden * kvHeads * headDim;
  const left = Math.max(1, parameters - (tied ? 1 : 2) * tokens * hidden);
  const layers = clamp(Math.round(left / (attention + 3 * innerShare * hidden ** 2)), 1, maxLayers);
  // What rounding left over goes to the inner size.
  const inner = Math.max(8, Math.round((left / layers - attention) / (3 * hidden)));
  return {
    model_type: 'llama',
    architectures: ['LlamaForCausalLM'],
    hidden_size: hidden,
    intermediate_size: inner,
    num_hidden_layers: layers,
    num_attention_heads: heads,
    num_key_value_heads: kvHeads,
    head_dim: headDim,
    vocab_size: tokens,
    max_position_embeddings: 2048,
    tie_word_embeddings: tied,
  };
}

/** Heads share keys and values in groups of one size. */
function largestDivisor(of: number, most: number): number {
  let divisor = Math.max(1, Math.floor(most));
  while (of % divisor !== 0) divisor -= 1;
  return divisor;
}

function widthOf(parameters: number): number {
  const after = widths.findIndex(([count]) => count >= parameters);
  const [low, high] = [widths.at(Math.max(0, after - 1)), widths.at(after)];
  if (low === undefined || high === undefined || low === high) return high?.[1] ?? 128;
  const share = Math.log(parameters / low[0]) / Math.log(high[0] / low[0]);
  return low[1] * (high[1] / low[1]) ** clamp(share, 0, 2);
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(most, Math.max(least, value));
}
