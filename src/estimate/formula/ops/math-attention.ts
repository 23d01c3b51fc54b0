import type { Net } from '../run/net.js';
import { last, type Tensor } from '../run/tensor.js';
import type { AttentionShape } from './attention-shape.js';
import { batchProduct } from './batch-product.js';
import { dropout, scale } from './pointwise.js';

interface MathInput {
  readonly query: Tensor;
  readonly key: Tensor;
  readonly value: Tensor;
  readonly mask: Tensor | undefined;
  readonly shape: AttentionShape;
  readonly causal: boolean;
  readonly inRun: boolean;
  readonly repeatsLate: boolean;
}

/** Attention as plain products and a softmax over all pairs of tokens, in 32 bits. */
export function mathAttention(net: Net, input: MathInput): Tensor {
  const { tape } = net;
  const { shape, mask } = input;
  const { batch, heads, kvHeads, queries, keys, valueDim } = shape;
  const groups = heads / kvHeads;
  return tape.scope(() => {
    const before = input.query.width;
    const [query, key, value] = [input.query, input.key, input.value].map((x) => net.cast(x, 4));
    if (query === undefined || key === undefined || value === undefined) return input.query;
    const scaled = scale(net, query);
    if (input.causal) tape.fresh(queries * keys, 4);
    const repeats = groups > 1 && !input.repeatsLate;
    const repeated = repeats ? expand(net, key, groups) : key;
    const values = groups > 1 ? expand(net, value, groups) : value;
    const elements = batch * heads * queries * keys;
    const scaledKey = last(scale(net, repeated));
    const fullKey = groups > 1 && !repeats ? last(expand(net, scaledKey, groups)) : scaledKey;
    const scores = batchProduct(net, scaled, fullKey, elements, {
      copies: [true, groups === 1 && !input.inRun],
    });
    const weights = safeSoftmax(net, last(scores), keys, mask);
    const used = dropout(net, weights, shape.dropout);
    if (before !== 4) net.cast(tape.detached(used), before);
    const result = batchProduct(net, used, values, batch * heads * queries * valueDim, {
      copies: [false, groups === 1 && !input.inRun],
    });
    return net.cast(result, before);
  });
}

function expand(net: Net, x: Tensor, groups: number): Tensor {
  return net.tape.run({ elements: x.elements * groups, width: x.width, inputs: [x] });
}

/** The mask is added in place; a second look finds rows that were masked whole. */
function safeSoftmax(net: Net, scores: Tensor, keys: number, mask: Tensor | undefined): Tensor {
  const { tape } = net;
  const { elements, width } = scores;
  const inputs = mask?.source ? [scores, mask] : [scores];
  return tape.run({
    elements,
    width,
    inputs,
    savesResult: true,
    scratch: [elements, elements / keys, width],
    backward: () => {
      const own = tape.grad(scores);
      tape.recorder.scratch([elements * width]);
      if (mask?.source) tape.give(mask, tape.grad(mask));
      tape.give(scores, own);
    },
  });
}
