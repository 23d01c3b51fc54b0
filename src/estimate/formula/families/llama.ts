import type { Attention, LayerGroup } from '../../../model/model.js';
import { NoFormula } from '../checks.js';
import { attend } from '../ops/attention.js';
import { experts } from '../ops/experts.js';
import { gatedFeedForward } from '../ops/feed-forward.js';
import { linear } from '../ops/linear.js';
import { remember } from '../ops/multi-head.js';
import { gemmaNorm, type Layer, rmsNorm } from '../ops/norm.js';
import { add } from '../ops/pointwise.js';
import { rotate, rotationFor } from '../ops/rotary.js';
import type { Net } from '../run/net.js';
import { last, type Tensor } from '../run/tape.js';
import { type Build, type BuildInput, hasTensor } from './context.js';
import { type DecoderState, decoder } from './decoder.js';

type Shared = DecoderState;

type Norm = (net: Net, size: number) => Layer;

/** The families that descend from Llama: rotary positions, norms by the root mean square, gates. */
export const llama: Build = (input) => {
  const { net, model } = input;
  if (model.stacks.length !== 1) throw new NoFormula(`${model.className}, which takes images too`);
  const norm: Norm = model.family.startsWith('gemma') ? gemmaNorm : rmsNorm;
  return decoder(input, {
    norm,
    scalesEmbedding: model.family.startsWith('gemma'),
    layer: (group, shared) => block(net, group, norm, input, shared),
    prepare: (shared, hidden) => prepare(input, shared, hidden),
  });
};

function prepare({ net, model }: BuildInput, shared: Shared, hidden: Tensor): void {
  const dim = model.stacks[0]?.layers[0]?.attention?.headDim ?? 0;
  shared.rotation = rotationFor(net, shared.sequence, dim, hidden.width);
}

function block(
  net: Net,
  group: LayerGroup,
  norm: Norm,
  { model }: BuildInput,
  shared: Shared,
): Layer {
  const { tape } = net;
  const { hidden, feedForward } = group;
  if (group.attention === undefined) throw new Error('a decoder layer has attention');
  const outputBias = hasTensor(model, 'self_attn.o_proj.bias');
  const attention = selfAttention(net, group, group.attention, norm, shared, outputBias);
  const feed =
    feedForward.experts === undefined
      ? gatedFeedForward(net, hidden, feedForward, group.attention.fused)
      : experts(net, hidden, feedForward, model.family);
  const norms = Array.from({ length: group.norms }, () => norm(net, hidden));
  const [before, after, beforeFeed, afterFeed] = norms;
  if (before === undefined || after === undefined) throw new Error('a decoder layer has two norms');
  return (x) =>
    tape.scope(() => {
      const attended = attention(last(before(x)));
      const first = afterFeed === undefined ? attended : after(last(attended));
      const middle = add(net, x, last(first));
      const normed = (beforeFeed ?? after)(middle);
      const fed = feed(last(normed));
      const second = afterFeed === undefined ? fed : afterFeed(last(fed));
      return add(net, middle, last(second));
    });
}

function selfAttention(
  net: Net,
  group: LayerGroup,
  attention: Attention,
  norm: Norm,
  shared: Shared,
  outputBias: boolean,
): Layer {
  const { tape } = net;
  const { hidden } = group;
  const { heads, kvHeads, headDim, bias, fused } = attention;
  const wide = heads * headDim;
  const narrow = kvHeads * headDim;
  const makeQkv = fused ? linear(net, hidden, wide + 2 * narrow, { bias }) : undefined;
  const makeQuery = fused ? undefined : linear(net, hidden, wide, { bias });
  const makeKey = fused ? undefined : linear(net, hidden, narrow, { bias });
  const makeValue = fused ? undefined : linear(net, hidden, narrow, { bias });
  const out = linear(net, wide, hidden, { bias: outputBias });
  const queryNorm = attention.queryKeyNorm ? norm(net, headDim) : undefined;
  const keyNorm = attention.queryKeyNorm ? norm(net, headDim) : undefined;
  const projected = (x: Tensor): Tensor[] => {
    if (makeQkv === undefined) {
      const query = makeQuery?.(x) ?? x;
      const normedQuery = queryNorm === undefined ? query : queryNorm(last(query));
      const key = makeKey?.(x) ?? x;
      const normedKey = keyNorm === undefined ? key : keyNorm(last(key));
      return [normedQuery, normedKey, makeValue?.(x) ?? x];
    }
    const tokens = x.elements / hidden;
    return tape.split(last(makeQkv(x)), [tokens * wide, tokens * narrow, tokens * narrow]);
  };
  return (input) =>
    tape.scope(() => {
      const x = tape.own(input);
      const [q, k, v] = projected(x);
      const { rotation, batch, sequence } = shared;
      if (!q || !k || !v || rotation === undefined) return x;
      const query = rotate(net, q, rotation);
      const turned = rotate(net, k, rotation);
      tape.drop(q);
      tape.drop(k);
      const key = remember(net, last(turned), shared.cache);
      const value = remember(net, shared.cache ? last(v) : v, shared.cache);
      turned.passing = false;
      const attended = attend(net, {
        query,
        key,
        value,
        mask: shared.masks.get(group),
        causal: true,
        shape: {
          batch,
          heads,
          kvHeads,
          queries: sequence,
          keys: sequence,
          headDim,
          valueDim: headDim,
          dropout: 0,
        },
      });
      return out(last(attended));
    });
}
