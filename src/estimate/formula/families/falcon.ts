import type { LayerGroup, Stack } from '../../../model/model.js';
import { attend, type Mask } from '../ops/attention.js';
import { plainFeedForward } from '../ops/feed-forward.js';
import { linear } from '../ops/linear.js';
import { remember } from '../ops/multi-head.js';
import { type Layer, layerNorm } from '../ops/norm.js';
import { add, dropout } from '../ops/pointwise.js';
import { rotate, rotationFor } from '../ops/rotary.js';
import type { Net } from '../run/net.js';
import { last } from '../run/tape.js';
import { type Build, type BuildInput, stackOf } from './context.js';
import { type DecoderState, decoder } from './decoder.js';

/** Falcon always makes a mask, which sends shared keys through plain products. */
export const falcon: Build = (input) => {
  const { net, model } = input;
  const { dropout: rates } = stackOf(model, 'text');
  return decoder(input, {
    norm: layerNorm,
    layer: (group, state) => block(net, group, rates, state, input),
    prepare: (state, hidden) => {
      const { attention } = model.stacks[0]?.layers[0] ?? {};
      state.rotation = rotationFor(net, state.sequence, attention?.headDim ?? 0, hidden.width);
      state.masks = new Map(
        model.stacks[0]?.layers.map((group) => [group, maskFor(input, group, state)]),
      );
    },
  });
};

/** True or false for each pair; with slopes by distance, a number for each head as well. */
function maskFor({ net, model }: BuildInput, group: LayerGroup, state: DecoderState): Mask {
  const { tape } = net;
  const pairs = state.sequence * state.sequence;
  const input = model.stacks[0]?.input;
  const sloped = input?.kind === 'tokens' && input.positions === 'alibi';
  if (!sloped) return { tensor: tape.fresh(pairs, 1), boolean: true };
  const heads = group.attention?.heads ?? 1;
  return { tensor: tape.fresh(state.batch * heads * pairs, net.width), boolean: false };
}

function block(
  net: Net,
  group: LayerGroup,
  rates: Stack['dropout'],
  state: DecoderState,
  input: BuildInput,
): Layer {
  const { tape } = net;
  const { hidden, feedForward } = group;
  const norms = Array.from({ length: group.norms }, () => layerNorm(net, hidden));
  const [before, other] = norms;
  if (before === undefined) throw new Error('a decoder layer has a norm');
  const attention = selfAttention(net, group, rates, state, input);
  const feed = plainFeedForward(net, hidden, feedForward);
  return (x) =>
    tape.scope(() => {
      const normed = before(x);
      const attended = attention(normed);
      if (!group.parallel) {
        const middle = add(net, x, last(dropout(net, last(attended), rates.hidden)));
        const fed = feed(last((other ?? before)(middle)));
        return add(net, middle, last(dropout(net, last(fed), rates.hidden)));
      }
      const fed = feed(other === undefined ? normed : last(other(x)));
      const both = add(net, last(fed), last(attended));
      return add(net, x, last(dropout(net, last(both), rates.hidden)));
    });
}

function selfAttention(
  net: Net,
  group: LayerGroup,
  rates: Stack['dropout'],
  state: DecoderState,
  { model }: BuildInput,
): Layer {
  const { tape } = net;
  const { hidden, attention } = group;
  const heads = attention?.heads ?? 1;
  const kvHeads = attention?.kvHeads ?? heads;
  const headDim = attention?.headDim ?? hidden;
  const bias = attention?.bias ?? false;
  const all = linear(net, hidden, (heads + 2 * kvHeads) * headDim, { bias });
  const out = linear(net, hidden, hidden, { bias });
  const input = model.stacks[0]?.input;
  const turns = input?.kind === 'tokens' && input.positions === 'rotary';
  return (x) =>
    tape.scope(() => {
      const { rotation, batch, sequence, cache } = state;
      const rows = batch * sequence * headDim;
      const sizes = [rows * heads, rows * kvHeads, rows * kvHeads];
      const [q, k, v] = tape.split(last(all(x)), sizes);
      if (!q || !k || !v || rotation === undefined) return x;
      const query = turns ? rotate(net, last(q), rotation) : q;
      const turned = turns ? rotate(net, last(k), rotation) : k;
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
      const mask = state.masks.get(group);
      const given = { query, key, value, mask, causal: true, shape };
      return out(last(attend(net, { ...given, repeatsLate: kvHeads < heads })));
    });
}
