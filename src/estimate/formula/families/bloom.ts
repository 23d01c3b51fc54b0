import type { LayerGroup, Stack } from '../../../model/model.js';
import { plainFeedForward } from '../ops/feed-forward.js';
import { batchProduct, linear } from '../ops/linear.js';
import { remember } from '../ops/multi-head.js';
import { type Layer, layerNorm } from '../ops/norm.js';
import { add, copy, dropout, softmax } from '../ops/pointwise.js';
import type { Net } from '../run/net.js';
import { last } from '../run/tape.js';
import { type Build, stackOf } from './context.js';
import { type DecoderState, decoder } from './decoder.js';

/** Bloom has no fused attention: the scores of all pairs of tokens are kept. */
export const bloom: Build = (input) => {
  const { net, model } = input;
  const { dropout: rates } = stackOf(model, 'text');
  return decoder(input, {
    norm: layerNorm,
    firstNorm: layerNorm,
    layer: (group, state) => block(net, group, rates, state),
  });
};

function block(net: Net, group: LayerGroup, rates: Stack['dropout'], state: DecoderState): Layer {
  const { tape } = net;
  const { hidden, feedForward } = group;
  const first = layerNorm(net, hidden);
  const attention = pairAttention(net, group, rates, state);
  const second = layerNorm(net, hidden);
  const activation = feedForward.activation === 'gelu' ? 'bloom_gelu' : feedForward.activation;
  const feed = plainFeedForward(net, hidden, { ...feedForward, activation });
  return (x) =>
    tape.scope(() => {
      const attended = dropout(net, last(attention(last(first(x)))), rates.hidden);
      const middle = add(net, x, last(attended));
      const fed = dropout(net, last(feed(last(second(middle)))), rates.hidden);
      return add(net, middle, last(fed));
    });
}

function pairAttention(
  net: Net,
  { hidden, attention }: LayerGroup,
  rates: Stack['dropout'],
  state: DecoderState,
): Layer {
  const { tape } = net;
  const heads = attention?.heads ?? 1;
  const all = linear(net, hidden, 3 * hidden);
  const out = linear(net, hidden, hidden);
  return (input) =>
    tape.scope(() => {
      const x = tape.own(input);
      const size = x.elements;
      const [q, k, v] = tape.split(last(all(x)), [size, size, size]);
      if (!q || !k || !v) return x;
      const query = copy(net, last(q));
      const key = remember(net, last(copy(net, last(k))), state.cache);
      const value = remember(net, last(copy(net, last(v))), state.cache);
      const pairs = state.batch * heads * state.sequence * state.sequence;
      const plain = { copies: [false, false] } as const;
      const scores = batchProduct(net, query, key, pairs, plain);
      const masked = add(net, last(scores), tape.fresh(state.sequence * state.sequence, 2));
      const wide = net.castFor(masked, 4);
      const soft = softmax(net, wide);
      tape.drop(masked);
      const used = dropout(net, last(net.cast(last(soft), query.width)), rates.attention);
      const mixed = batchProduct(net, used, value, size, plain);
      return out(last(copy(net, last(mixed))));
    });
}
