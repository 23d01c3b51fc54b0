import type { LayerGroup, Stack } from '../../../model/model.js';
import { attend } from '../ops/attention.js';
import { plainFeedForward } from '../ops/feed-forward.js';
import { linear } from '../ops/linear.js';
import { remember } from '../ops/multi-head.js';
import { type Layer, layerNorm } from '../ops/norm.js';
import { add, dropout } from '../ops/pointwise.js';
import { rotate, rotationFor } from '../ops/rotary.js';
import type { Net } from '../run/net.js';
import { last, type Tensor } from '../run/tape.js';
import { type Build, type BuildInput, stackOf } from './context.js';
import { type DecoderState, decoder } from './decoder.js';

/** GPT-NeoX: rotary positions on a part of each head; attention and feed-forward side by side. */
export const gptNeox: Build = (input) => rotated(input, 0.25, true);

/** Phi: the same, with one norm for both, and matrices of their own for query, key and value. */
export const phi: Build = (input) => rotated(input, 0.5, false);

function rotated(input: BuildInput, usualShare: number, fused: boolean) {
  const { net, model } = input;
  const stack = stackOf(model, 'text');
  const headDim = stack.layers[0]?.attention?.headDim ?? 0;
  return decoder(input, {
    norm: layerNorm,
    layer: (group, state) => block(net, group, stack.dropout, state, usualShare, fused),
    prepare: (state, hidden) => {
      state.rotation = rotationFor(net, state.sequence, headDim * usualShare, hidden.width);
    },
  });
}

function block(
  net: Net,
  group: LayerGroup,
  rates: Stack['dropout'],
  state: DecoderState,
  share: number,
  fused: boolean,
): Layer {
  const { tape } = net;
  const { hidden, feedForward } = group;
  const norms = Array.from({ length: group.norms }, () => layerNorm(net, hidden));
  const [before, beforeFeed] = norms;
  if (before === undefined) throw new Error('a decoder layer has a norm');
  const attention = selfAttention(net, group, rates, state, share, fused);
  const feed = plainFeedForward(net, hidden, feedForward, { dropout: rates.hidden });
  return (x) =>
    tape.scope(() => {
      const normed = before(x);
      const attended = dropout(net, last(attention(normed)), rates.hidden);
      const middle = group.parallel ? undefined : add(net, last(attended), x);
      const fed = feed(beforeFeed === undefined ? normed : last(beforeFeed(middle ?? x)));
      if (middle !== undefined) return add(net, last(fed), middle);
      return add(net, last(add(net, last(fed), last(attended))), x);
    });
}

function selfAttention(
  net: Net,
  { hidden, attention }: LayerGroup,
  rates: Stack['dropout'],
  state: DecoderState,
  share: number,
  fused: boolean,
): Layer {
  const { tape } = net;
  const heads = attention?.heads ?? 1;
  const headDim = attention?.headDim ?? hidden;
  const bias = attention?.bias ?? true;
  const kvHeads = attention?.kvHeads ?? heads;
  const wide = heads * headDim;
  const narrow = kvHeads * headDim;
  const all = fused ? [linear(net, hidden, 3 * hidden, { bias })] : [];
  const sizes = fused ? [] : [wide, narrow, narrow];
  const each = sizes.map((size) => linear(net, hidden, size, { bias }));
  const out = linear(net, wide, hidden, { bias });
  const normed = attention?.queryKeyNorm === true ? [headDim, headDim] : [];
  const [queryNorm, keyNorm] = normed.map((size) => layerNorm(net, size));
  const project = (x: Tensor): Tensor[] => {
    const size = x.elements;
    const whole = all[0]?.(x);
    if (whole !== undefined) return tape.split(last(whole), [size, size, size]);
    return each.map((make) => make(x));
  };
  return (x) =>
    tape.scope(() => {
      const [plainQuery, plainKey, v] = project(x);
      const { rotation, batch, sequence, cache } = state;
      if (!plainQuery || !plainKey || !v || rotation === undefined) return x;
      const q = queryNorm === undefined ? plainQuery : queryNorm(last(plainQuery));
      const k = keyNorm === undefined ? plainKey : keyNorm(last(plainKey));
      const query = rotate(net, q, rotation, share);
      const turned = rotate(net, k, rotation, share);
      tape.drop(q);
      tape.drop(k);
      const key = remember(net, cache ? last(turned) : turned, cache);
      const value = remember(net, cache ? last(v) : v, cache);
      const shape = {
        batch,
        heads,
        kvHeads,
        queries: sequence,
        keys: sequence,
        headDim,
        valueDim: headDim,
        dropout: rates.attention,
      };
      const copiesResult = share !== 1;
      const attended = attend(net, { query, key, value, causal: true, shape, copiesResult });
      return out(last(attended));
    });
}
