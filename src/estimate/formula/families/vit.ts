import type { LayerGroup, Stack } from '../../../model/model.js';
import { NoFormula } from '../checks.js';
import { convolution } from '../ops/convolution.js';
import { crossEntropy } from '../ops/embedding.js';
import { plainFeedForward } from '../ops/feed-forward.js';
import { linear } from '../ops/linear.js';
import { multiHead } from '../ops/multi-head.js';
import { type Layer, layerNorm } from '../ops/norm.js';
import { add, dropout } from '../ops/pointwise.js';
import { concatenate } from '../ops/rotary.js';
import type { Net } from '../run/net.js';
import { last } from '../run/tape.js';
import { type Build, imageEdges, stackOf } from './context.js';

/** Patches of an image as tokens, with one more for the whole. */
export const vit: Build = (input) => {
  const { net, model, workload } = input;
  const { tape, settings } = net;
  const stack = stackOf(model, 'vision');
  const { hidden, dropout: rates } = stack;
  if (stack.input.kind !== 'image') throw new Error('the model takes images');
  if (model.head !== 'image-classification') throw new NoFormula(`the class ${model.className}`);
  const { channels, patchSize, extraTokens } = stack.input;
  const [high, wide] = imageEdges(workload, stack.input.imageSize);
  const patches = Math.floor(high / patchSize[0]) * Math.floor(wide / patchSize[1]);
  const tokens = patches + extraTokens;
  const { batch } = workload;
  const classToken = net.parameter([1, 1, hidden]);
  const table = model.tensors.find(({ name }) => name.endsWith('position_embeddings'));
  const positions = net.parameter(table?.shape ?? [1, tokens, hidden]);
  const project = convolution(net, {
    channels,
    outputs: hidden,
    kernel: patchSize,
    stride: patchSize,
  });
  const layers = stack.layers.flatMap((group) =>
    Array.from({ length: group.count }, () => vitBlock(net, group, rates, batch, tokens)),
  );
  const norm = layerNorm(net, hidden);
  const classify = linear(net, hidden, model.outputs, { adapters: false });
  return {
    batch: () => [
      tape.fresh(batch * channels * high * wide, net.width),
      ...(settings.training ? [tape.fresh(batch, 8)] : []),
    ],
    forward: ([images]) =>
      tape.scope(() => {
        if (images === undefined) throw new Error('a batch has images');
        const map = project(images, [batch, high, wide]);
        const joined = concatenate(net, [classToken, last(map)], batch * tokens * hidden);
        let x = dropout(
          net,
          last(add(net, last(joined), tape.alias(positions, tokens * hidden))),
          rates.embedding,
        );
        x.passing = false;
        for (const layer of layers) {
          const before = x;
          x = net.block(before, layer);
          tape.drop(before);
        }
        const [first] = tape.split(norm(last(x)), [batch * hidden]);
        const scores = classify(last(first ?? x));
        return settings.training ? crossEntropy(net, last(scores)) : scores;
      }),
  };
};

/** Norms before each part. */
export function vitBlock(
  net: Net,
  { hidden, attention, feedForward }: LayerGroup,
  rates: Stack['dropout'],
  batch: number,
  tokens: number,
): Layer {
  const { tape } = net;
  const attend = multiHead(net, hidden, {
    heads: attention?.heads ?? 1,
    headDim: attention?.headDim ?? hidden,
    dropout: rates.attention,
    bias: attention?.bias ?? true,
    outputBias: true,
  });
  const first = layerNorm(net, hidden);
  const second = layerNorm(net, hidden);
  const feed = plainFeedForward(net, hidden, feedForward, { dropout: rates.hidden });
  return (x) =>
    tape.scope(() => {
      const attended = attend(last(first(x)), { batch, queries: tokens });
      const middle = add(net, last(dropout(net, last(attended), rates.hidden)), x);
      return add(net, last(feed(last(second(middle)))), middle);
    });
}
