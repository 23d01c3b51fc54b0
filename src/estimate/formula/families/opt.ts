import type { LayerGroup, Stack } from '../../../model/model.js';
import { plainFeedForward } from '../ops/feed-forward.js';
import { multiHead } from '../ops/multi-head.js';
import { type Layer, layerNorm } from '../ops/norm.js';
import { add, dropout } from '../ops/pointwise.js';
import type { Net } from '../run/net.js';
import { last } from '../run/tape.js';
import { type Build, stackOf } from './context.js';
import { type DecoderState, decoder } from './decoder.js';

export const opt: Build = (input) => {
  const { net, model } = input;
  const stack = stackOf(model, 'text');
  const positions = model.tensors.find(({ name }) => name.endsWith('embed_positions.weight'));
  const table = model.tensors.find(({ name }) => name.endsWith('embed_tokens.weight'));
  const finalNorm = model.tensors.some(({ name }) => /decoder\.final_layer_norm/.test(name));
  return decoder(input, {
    norm: finalNorm ? layerNorm : undefined,
    embedded: table?.shape[1],
    positions: positions?.shape[0] ?? 0,
    positionsBySample: true,
    layer: (group, state) => block(net, group, stack.dropout, state),
  });
};

function block(net: Net, group: LayerGroup, rates: Stack['dropout'], state: DecoderState): Layer {
  const { tape } = net;
  const { hidden, attention, feedForward } = group;
  const attend = multiHead(net, hidden, {
    heads: attention?.heads ?? 1,
    headDim: attention?.headDim ?? hidden,
    dropout: rates.attention,
    bias: attention?.bias ?? true,
    scalesQuery: true,
    causal: true,
  });
  const first = layerNorm(net, hidden);
  const feed = plainFeedForward(net, hidden, feedForward, { dropout: rates.hidden });
  const second = layerNorm(net, hidden);
  return (x) =>
    tape.scope(() => {
      const { batch, sequence, cache } = state;
      const call = { batch, queries: sequence, remembers: cache };
      const attended = dropout(net, last(attend(last(first(x)), call)), rates.hidden);
      const middle = add(net, x, last(attended));
      return add(net, middle, last(feed(last(second(middle)))));
    });
}
