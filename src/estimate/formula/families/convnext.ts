import type { LayerGroup } from '../../../model/model.js';
import { NoFormula } from '../checks.js';
import { activate } from '../ops/activation.js';
import { convolution } from '../ops/convolution.js';
import { crossEntropy } from '../ops/embedding.js';
import { linear } from '../ops/linear.js';
import { type Layer, layerNorm } from '../ops/norm.js';
import { add, dropPath, multiply } from '../ops/pointwise.js';
import type { Net } from '../run/net.js';
import { last, type Tensor } from '../run/tape.js';
import { type Build, imageEdges, stackOf } from './context.js';

/** Depthwise convolutions in place of attention; norms over channels, which are moved to the end. */
export const convnext: Build = (input) => {
  const { net, model, workload } = input;
  const { tape, settings } = net;
  const stack = stackOf(model, 'vision');
  if (stack.input.kind !== 'image') throw new Error('the model takes images');
  if (model.head !== 'image-classification') throw new NoFormula(`the class ${model.className}`);
  const { channels, patchSize } = stack.input;
  const [edge] = imageEdges(workload, stack.input.imageSize);
  const { batch } = workload;
  const scaled = model.tensors.some(({ name }) => name.endsWith('layer_scale_parameter'));
  const firstHidden = stack.layers[0]?.hidden ?? stack.hidden;
  const project = convolution(net, {
    channels,
    outputs: firstHidden,
    kernel: patchSize,
    stride: patchSize,
  });
  const norm = movedNorm(net, firstHidden);
  const depth = stack.layers.reduce((sum, { count }) => sum + count, 0);
  let number = 0;
  let size = Math.floor(edge / patchSize[0]);
  let before: LayerGroup | undefined;
  const stages = stack.layers.map((group) => {
    const narrow = before;
    const from = size;
    if (narrow !== undefined) size = Math.floor(size / 2);
    const down = narrow === undefined ? undefined : shrink(net, narrow.hidden, group.hidden);
    const place = { batch, edge: size };
    const blocks = Array.from({ length: group.count }, () => {
      const path = depth > 1 ? (stack.dropout.path * number) / (depth - 1) : 0;
      number += 1;
      return block(net, group, place, path, scaled);
    });
    before = group;
    return { blocks, down, from };
  });
  const finalNorm = layerNorm(net, stack.hidden);
  const classify = linear(net, stack.hidden, model.outputs, { adapters: false });
  return {
    batch: () => [
      tape.fresh(batch * channels * edge * edge, net.width),
      ...(settings.training ? [tape.fresh(batch, 8)] : []),
    ],
    forward: ([images]) =>
      tape.scope(() => {
        if (images === undefined) throw new Error('a batch has images');
        let x = norm(last(project(images, [batch, edge, edge])));
        for (const { blocks, down, from } of stages) {
          if (down !== undefined) x = down(last(x), batch, from);
          for (const one of blocks) {
            const previous = x;
            x = net.block(previous, one);
            tape.drop(previous);
          }
        }
        const pooled = tape.run({
          elements: batch * stack.hidden,
          width: x.width,
          inputs: [last(x)],
        });
        const scores = classify(last(finalNorm(last(pooled))));
        return settings.training ? crossEntropy(net, last(scores)) : scores;
      }),
  };
};

/** Norm of a tensor that is not contiguous: it is copied, forward and backward. */
function movedNorm(net: Net, size: number): Layer {
  const { tape } = net;
  const norm = layerNorm(net, size);
  return (x) => {
    tape.recorder.scratch([x.elements * x.width]);
    return norm(x);
  };
}

function shrink(net: Net, from: number, to: number) {
  const norm = movedNorm(net, from);
  const halve = convolution(net, { channels: from, outputs: to, kernel: [2, 2], stride: [2, 2] });
  return (x: Tensor, batch: number, edge: number): Tensor =>
    net.tape.scope(() => halve(last(norm(net.tape.own(x))), [batch, edge, edge]));
}

function block(
  net: Net,
  group: LayerGroup,
  { batch, edge }: { readonly batch: number; readonly edge: number },
  path: number,
  scaled: boolean,
): Layer {
  const { tape } = net;
  const { hidden, feedForward } = group;
  const factor = scaled ? net.parameter([hidden]) : undefined;
  const kernel = group.convolution ?? 7;
  const half = Math.floor(kernel / 2);
  const mix = convolution(net, {
    channels: hidden,
    outputs: hidden,
    kernel: [kernel, kernel],
    stride: [1, 1],
    padding: [half, half],
    depthwise: true,
  });
  const norm = movedNorm(net, hidden);
  const up = linear(net, hidden, feedForward.inner);
  const down = linear(net, feedForward.inner, hidden);
  return (x) =>
    tape.scope(() => {
      const normed = norm(last(mix(x, [batch, edge, edge])));
      const wide = activate(net, feedForward.activation, last(up(last(normed))));
      const narrow = down(last(wide));
      const factored = factor === undefined ? narrow : multiply(net, factor, last(narrow));
      return add(net, x, last(dropPath(net, last(factored), path, batch)));
    });
}
