import type { Net } from '../run/net.js';
import { last, type Tensor } from '../run/tensor.js';
import type { AttentionShape } from './attention-shape.js';
import { batchProduct } from './batch-product.js';
import { copy, dropout, scale, shift, softmax } from './pointwise.js';

interface WrittenInput {
  readonly query: Tensor;
  readonly key: Tensor;
  readonly value: Tensor;
  readonly shape: AttentionShape;
}

/** Attention without a kernel of its own: a score for each pair of tokens is kept, after a softmax. */
export function writtenAttention(net: Net, input: WrittenInput): Tensor {
  const { tape, settings } = net;
  const { batch, heads, kvHeads, queries, keys, valueDim, dropout: rate } = input.shape;
  return tape.scope(() => {
    const width = settings.autocast ?? input.query.width;
    const inside = settings.writtenScores === '32-bit' ? 4 : width;
    const [query, key, value] = [input.query, input.key, input.value].map(tape.own.bind(tape));
    if (query === undefined || key === undefined || value === undefined) return input.query;
    const [allKeys, allValues] = [key, value].map((x) => repeated(net, x, heads / kvHeads));
    if (allKeys === undefined || allValues === undefined) return query;
    const scores = batchProduct(
      net,
      net.castFor(query, inside),
      net.castFor(allKeys, inside),
      batch * heads * queries * keys,
      { copies: [true, true] },
    );
    const masked = shift(net, last(scale(net, last(scores))));
    const softened = softmax(net, last(masked), settings.autocast === undefined ? inside : 4);
    const weights = net.castFor(dropout(net, softened, rate), width);
    const result = batchProduct(
      net,
      weights,
      net.castFor(allValues, width),
      batch * heads * queries * valueDim,
      { copies: [false, true] },
    );
    return copy(net, last(result));
  });
}

/** Each head of keys or values, as often as queries share it. */
export function repeated(net: Net, x: Tensor, groups: number): Tensor {
  if (groups === 1) return x;
  return net.tape.run({ elements: x.elements * groups, width: x.width, inputs: [x] });
}
