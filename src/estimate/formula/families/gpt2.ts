import type { LayerGroup } from '../../../model/model.js';
import { attend } from '../ops/attention.js';
import { plainFeedForward } from '../ops/feed-forward.js';
import { linear } from '../ops/linear.js';
import { remember } from '../ops/multi-head.js';
import { type Layer, layerNorm } from '../ops/norm.js';
import { add, dropout } from '../ops/pointwise.js';
import type { Net } from '../run/net.js';
import { last } from '../run/tape.js';
import { type Build, stackOf } from './context.js';
import { type DecoderState, decoder } from './decoder.js';

/** Query, key and value from one matrix; dropout after each part. */
export const gpt2: Build = (input) => {
  const { net, model } = input;
  const stack = stackOf(model, 'text');
  const positions = stack.input.kind === 'tokens' ? stack.input.maxPositions : 'unknown';
  return decoder(input, {
    norm: layerNorm,
    positions: positions === 'unknown' ? 0 : positions,
    layer: (group, state) => block(net, group, stack.dropout, state),
  });
};

function block(
  net: Net,
  group: LayerGroup,
  rates: { readonly attention: number; readonly hidden: number },
  state: DecoderState,
): Layer {
  const { tape } = net;
  const { hidden } = group;
  const first = layerNorm(net, hidden);
  const attention = selfAttention(net, group, rates, state);
  const second = layerNorm(net, hidden);
  const feed = plainFeedForward(net, hidden, group.feedForward, {
    transposed: true,
    dropout: rates.hidden,
  });
  return (x) =>
    tape.scope(() => {
      // Both branches keep their names to the end of the block, and norms until they are added.
      const normed = first(x);
      const middle = add(net, attention(normed), x);
      tape.drop(normed);
      return add(net, middle, feed(second(middle)));
    });
}

function selfAttention(
  net: Net,
  { hidden, attention }: LayerGroup,
  rates: { readonly attention: number; readonly hidden: number },
  state: DecoderState,
): Layer {
  const { tape } = net;
  const heads = attention?.heads ?? 1;
  const headDim = attention?.headDim ?? hidden;
  const all = linear(net, hidden, 3 * hidden, { transposed: true });
  const out = linear(net, hidden, hidden, { transposed: true });
  return (input) =>
    tape.scope(() => {
      const x = tape.own(input);
      const { batch, sequence } = state;
      const each = x.elements;
      const [query, key, value] = tape.split(last(all(x)), [each, each, each]);
      if (!query || !key || !value) return x;
      const attended = attend(net, {
        query,
        key: remember(net, key, state.cache),
        value: remember(net, value, state.cache),
        causal: true,
        shape: {
          batch,
          heads,
          kvHeads: heads,
          queries: sequence,
          keys: sequence,
          headDim,
          valueDim: headDim,
          dropout: rates.attention,
        },
      });
      return dropout(net, last(out(last(attended))), rates.hidden);
    });
}
