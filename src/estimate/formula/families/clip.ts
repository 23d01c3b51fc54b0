import type { Stack } from '../../../model/model.js';
import type { Workload } from '../../types.js';
import { NoFormula } from '../checks.js';
import { convolution } from '../ops/convolution.js';
import { crossEntropy, lookUp } from '../ops/embedding.js';
import { linear } from '../ops/linear.js';
import { layerNorm } from '../ops/norm.js';
import { add, copy, multiply } from '../ops/pointwise.js';
import { concatenate } from '../ops/rotary.js';
import type { Net } from '../run/net.js';
import { last, type Tensor } from '../run/tape.js';
import { type Build, stackOf } from './context.js';
import { vitBlock } from './vit.js';

type Tower = (input: Tensor) => Tensor;

/** An image and a text, each through its own tower into one short vector. */
export const clip: Build = (input) => {
  const { net, model, workload } = input;
  const { tape, settings } = net;
  if (model.head !== 'contrastive') throw new NoFormula(`the class ${model.className}`);
  const pictures = stackOf(model, 'vision');
  const captions = stackOf(model, 'text');
  const { batch } = workload;
  const edge = edgeOf(pictures, workload);
  const tokens = workload.sequence ?? 1;
  const channels = pictures.input.kind === 'image' ? pictures.input.channels : 3;
  const see = imageTower(net, pictures, batch, edge);
  const scaleOf = net.parameter([]);
  const read = textTower(net, captions, batch, tokens);
  const { outputs } = model;
  const imageOut = linear(net, pictures.hidden, outputs, { bias: false });
  const textOut = linear(net, captions.hidden, outputs, { bias: false });
  return {
    batch: () => [
      tape.fresh(batch * tokens, 8),
      tape.fresh(batch * channels * edge * edge, net.width),
    ],
    forward: ([ids, images]) =>
      tape.scope(() => {
        if (ids === undefined || images === undefined) throw new Error('a batch has both');
        const image = copy(net, last(imageOut(last(see(images)))));
        const text = copy(net, last(textOut(last(read(ids)))));
        const pairs = multiply(net, last(compare(net, text, image, batch)), scaleOf);
        return settings.training ? crossEntropy(net, last(pairs)) : pairs;
      }),
  };
};

/** How alike each text and each image of the batch are. */
function compare(net: Net, text: Tensor, image: Tensor, batch: number): Tensor {
  const width = net.low;
  return net.tape.run({
    elements: batch * batch,
    width,
    inputs: [text, image],
    saves: [text, image],
  });
}

function imageTower(net: Net, stack: Stack, batch: number, edge: number): Tower {
  const { tape } = net;
  const { hidden } = stack;
  if (stack.input.kind !== 'image') throw new Error('the tower takes images');
  const { channels, patchSize, imageSize } = stack.input;
  const patches = Math.floor(edge / patchSize[0]) * Math.floor(edge / patchSize[1]);
  const made = Math.floor(imageSize[0] / patchSize[0]) * Math.floor(imageSize[1] / patchSize[1]);
  const whole = net.parameter([hidden]);
  const project = convolution(net, {
    channels,
    outputs: hidden,
    kernel: patchSize,
    stride: patchSize,
    bias: false,
  });
  const positions = net.parameter([made + 1, hidden]);
  const first = layerNorm(net, hidden);
  const layers = layersOf(net, stack, batch, patches + 1);
  const after = layerNorm(net, hidden);
  return (images) =>
    tape.scope(() => {
      const map = project(images, [batch, edge, edge]);
      const joined = concatenate(net, [whole, last(map)], batch * (patches + 1) * hidden);
      const placed = add(net, last(joined), last(lookUp(net, positions, patches + 1)));
      const x = through(net, layers, first(last(placed)));
      const [pooled] = tape.split(last(x), [batch * hidden]);
      return after(last(pooled ?? x));
    });
}

function textTower(net: Net, stack: Stack, batch: number, tokens: number): Tower {
  const { tape } = net;
  const { hidden } = stack;
  if (stack.input.kind !== 'tokens') throw new Error('the tower takes text');
  const { vocabulary, maxPositions } = stack.input;
  const table = net.parameter([vocabulary, hidden]);
  const positions = net.parameter([maxPositions === 'unknown' ? tokens : maxPositions, hidden]);
  const layers = layersOf(net, stack, batch, tokens);
  const after = layerNorm(net, hidden);
  return (ids) =>
    tape.scope(() => {
      const words = lookUp(net, table, batch * tokens, ids);
      const placed = add(net, last(words), last(lookUp(net, positions, tokens)));
      const x = after(last(through(net, layers, placed)));
      const [pooled] = tape.split(last(x), [batch * hidden]);
      return copy(net, last(pooled ?? x));
    });
}

function layersOf(net: Net, stack: Stack, batch: number, tokens: number) {
  return stack.layers.flatMap((group) =>
    Array.from({ length: group.count }, () => vitBlock(net, group, stack.dropout, batch, tokens)),
  );
}

function through(net: Net, layers: readonly Tower[], start: Tensor): Tensor {
  let x = start;
  for (const layer of layers) {
    const before = x;
    x = net.block(before, layer);
    net.tape.drop(before);
  }
  return x;
}

function edgeOf(stack: Stack, workload: Workload): number {
  return workload.image ?? (stack.input.kind === 'image' ? stack.input.imageSize[0] : 224);
}
