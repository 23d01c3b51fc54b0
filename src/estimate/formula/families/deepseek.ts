import type { Attention, LayerGroup } from '../../../model/model.js';
import { attend } from '../ops/attention.js';
import { experts } from '../ops/experts.js';
import { gatedFeedForward } from '../ops/feed-forward.js';
import { linear } from '../ops/linear.js';
import { remember } from '../ops/multi-head.js';
import { type Layer, rmsNorm } from '../ops/norm.js';
import { add } from '../ops/pointwise.js';
import { concatenate, rotate, rotationFor } from '../ops/rotary.js';
import type { Net } from '../run/net.js';
import { last, type Tensor } from '../run/tape.js';
import type { Build, BuildInput } from './context.js';
import { type DecoderState, decoder } from './decoder.js';

/** Keys and values come out of one small vector; transformers caches them at full size. */
export const deepseek: Build = (input) => {
  const { net, model } = input;
  const latent = model.stacks[0]?.layers[0]?.attention?.latent;
  return decoder(input, {
    norm: rmsNorm,
    layer: (group, state) => block(input, group, state),
    prepare: (state, hidden) => {
      state.rotation = rotationFor(net, state.sequence, latent?.ropeDim ?? 0, hidden.width);
    },
  });
};

function block({ net, model }: BuildInput, group: LayerGroup, state: DecoderState): Layer {
  const { tape } = net;
  const { hidden, feedForward, attention } = group;
  if (attention === undefined) throw new Error('a decoder layer has attention');
  const attended = latentAttention(net, hidden, attention, state);
  const feed =
    feedForward.experts === undefined
      ? gatedFeedForward(net, hidden, feedForward)
      : experts(net, hidden, feedForward, model.family);
  const first = rmsNorm(net, hidden);
  const second = rmsNorm(net, hidden);
  return (x) =>
    tape.scope(() => {
      const middle = add(net, x, last(attended(last(first(x)))));
      return add(net, middle, last(feed(last(second(middle)))));
    });
}

function latentAttention(
  net: Net,
  hidden: number,
  attention: Attention,
  state: DecoderState,
): Layer {
  const { tape } = net;
  const { heads, headDim, bias } = attention;
  const valueDim = attention.valueHeadDim ?? headDim;
  const { queryRank = null, keyValueRank = 0, ropeDim = 0 } = attention.latent ?? {};
  const plainDim = headDim - ropeDim;
  const makeQuery = queryMaker(net, hidden, heads * headDim, queryRank, bias);
  const compress = linear(net, hidden, keyValueRank + ropeDim, { bias });
  const norm = rmsNorm(net, keyValueRank);
  const spread = linear(net, keyValueRank, heads * (plainDim + valueDim), { bias: false });
  const out = linear(net, heads * valueDim, hidden, { bias });
  return (input) =>
    tape.scope(() => {
      const x = tape.own(input);
      const { rotation, batch, sequence, cache } = state;
      const tokens = batch * sequence;
      const perHead = tokens * heads;
      const [queryPlain, queryTurned] = tape.split(last(makeQuery(x)), [
        perHead * plainDim,
        perHead * ropeDim,
      ]);
      const [small, keyTurned] = tape.split(last(compress(x)), [
        tokens * keyValueRank,
        tokens * ropeDim,
      ]);
      if (!queryPlain || !queryTurned || !small || !keyTurned || !rotation) return x;
      const normed = norm(last(small));
      const turned = rotate(net, last(queryTurned), rotation);
      const shared = rotate(net, last(keyTurned), rotation);
      const query = concatenate(net, [last(queryPlain), last(turned)]);
      const [keyPlain, value] = tape.split(last(spread(last(normed))), [
        perHead * plainDim,
        perHead * valueDim,
      ]);
      if (!keyPlain || !value) return x;
      const key = concatenate(net, [last(keyPlain), last(shared)], perHead * headDim);
      const shape = {
        batch,
        heads,
        kvHeads: heads,
        queries: sequence,
        keys: sequence,
        headDim,
        valueDim,
        dropout: 0,
      };
      const attended = attend(net, {
        query,
        key: remember(net, cache ? last(key) : key, cache),
        value: remember(net, cache ? last(value) : value, cache),
        causal: true,
        shape,
        copiesResult: true,
      });
      return out(last(attended));
    });
}

/** The query may come out of a small vector as well. */
function queryMaker(
  net: Net,
  hidden: number,
  output: number,
  rank: number | null,
  bias: boolean,
): (x: Tensor) => Tensor {
  if (rank === null) return linear(net, hidden, output, { bias: false });
  const down = linear(net, hidden, rank, { bias });
  const norm = rmsNorm(net, rank);
  const up = linear(net, rank, output, { bias: false });
  return (x) => net.tape.scope(() => up(last(norm(last(down(x))))));
}
