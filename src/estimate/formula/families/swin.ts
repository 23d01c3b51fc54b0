import type { LayerGroup, Stack } from '../../../model/model.js';
import { NoFormula } from '../checks.js';
import { attend, type Mask } from '../ops/attention.js';
import { convolution } from '../ops/convolution.js';
import { crossEntropy } from '../ops/embedding.js';
import { plainFeedForward } from '../ops/feed-forward.js';
import { linear } from '../ops/linear.js';
import { type Layer, layerNorm } from '../ops/norm.js';
import { add, copy, dropout, dropPath } from '../ops/pointwise.js';
import type { Net, Parameter } from '../run/net.js';
import { last, type Tensor } from '../run/tape.js';
import { type Build, imageEdges, stackOf } from './context.js';

/** Masks of the memory-efficient kernel come in whole steps of columns. */
const maskStep = 8;

interface Place {
  readonly batch: number;
  /** Edge of the feature map. */
  readonly edge: number;
}

/** Attention inside windows that every second layer moves by half. */
export const swin: Build = (input) => {
  const { net, model, workload } = input;
  const { tape, settings } = net;
  const stack = stackOf(model, 'vision');
  if (stack.input.kind !== 'image') throw new Error('the model takes images');
  if (model.head !== 'image-classification') throw new NoFormula(`the class ${model.className}`);
  const { channels, patchSize } = stack.input;
  const [edge] = imageEdges(workload, stack.input.imageSize);
  const { batch } = workload;
  const firstHidden = stack.layers[0]?.hidden ?? stack.hidden;
  const project = convolution(net, {
    channels,
    outputs: firstHidden,
    kernel: patchSize,
    stride: patchSize,
  });
  const norm = layerNorm(net, firstHidden);
  const patches = Math.ceil(edge / patchSize[0]);
  const depth = stack.layers.reduce((sum, { count }) => sum + count, 0);
  let number = 0;
  const stages = stack.layers.map((group, index) => {
    const place = { batch, edge: Math.ceil(patches / (group.reduction ?? 1)) };
    const blocks = Array.from({ length: group.count }, (_, position) => {
      const path = depth > 1 ? (stack.dropout.path * number) / (depth - 1) : 0;
      number += 1;
      return block(net, group, { ...stack.dropout, path }, place, position % 2 === 1);
    });
    const next = stack.layers[index + 1];
    return { blocks, merge: next ? merger(net, group.hidden) : undefined };
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
        let x = dropout(
          net,
          last(norm(last(project(images, [batch, edge, edge])))),
          stack.dropout.embedding,
        );
        x.passing = false;
        for (const { blocks, merge } of stages) {
          for (const one of blocks) {
            const before = x;
            x = net.block(before, one);
            tape.drop(before);
          }
          if (merge !== undefined) x = merge(last(x));
        }
        const normed = finalNorm(last(x));
        const pooled = tape.run({
          elements: batch * stack.hidden,
          width: normed.width,
          inputs: [last(normed)],
        });
        const scores = classify(last(pooled));
        return settings.training ? crossEntropy(net, last(scores)) : scores;
      }),
  };
};

/** Four neighbours become one token, twice as wide. */
function merger(net: Net, hidden: number): Layer {
  const { tape } = net;
  const reduce = linear(net, 4 * hidden, 2 * hidden, { bias: false });
  const norm = layerNorm(net, 4 * hidden);
  return (input) =>
    tape.scope(() => {
      const joined = copy(net, tape.own(input));
      return copy(net, last(reduce(last(norm(last(joined))))));
    });
}

function block(
  net: Net,
  group: LayerGroup,
  rates: Stack['dropout'],
  { batch, edge }: Place,
  second: boolean,
): Layer {
  const { tape } = net;
  const { hidden, feedForward } = group;
  const window = Math.min(group.attention?.window ?? edge, edge);
  const shifted = second && edge > (group.attention?.window ?? edge);
  const windows = batch * Math.ceil(edge / window) ** 2;
  const attention = windowAttention(net, group, rates, { windows, window, shifted });
  const before = layerNorm(net, hidden);
  const after = layerNorm(net, hidden);
  const feed = plainFeedForward(net, hidden, feedForward, { dropout: rates.hidden });
  const padded = windows * window ** 2 * hidden;
  const move = (x: Tensor) => (shifted ? moved(net, x) : x);
  return (x) =>
    tape.scope(() => {
      const normed = last(before(x));
      const filled = tape.run({ elements: padded, width: normed.width, inputs: [normed] });
      // Each of these keeps its name to the end of the block.
      const cut = copy(net, move(filled));
      const whole = move(copy(net, attention(cut)));
      const [kept] = padded === x.elements ? [whole] : tape.split(whole, [x.elements]);
      const branch = dropPath(net, kept ?? whole, rates.path, batch);
      const middle = add(net, x, branch === whole ? whole : last(branch));
      tape.drop(filled);
      return add(net, middle, last(feed(last(after(middle)))));
    });
}

/** Rolled over both edges, one after the other. */
function moved(net: Net, x: Tensor): Tensor {
  const { tape } = net;
  const { elements, width } = x;
  return tape.run({
    elements,
    width,
    inputs: [x],
    scratch: [elements * width],
    backward: () => {
      const own = tape.grad(x);
      tape.recorder.scratch([elements * width]);
      tape.give(x, own);
    },
  });
}

interface WindowSizes {
  readonly windows: number;
  readonly window: number;
  readonly shifted: boolean;
}

function windowAttention(
  net: Net,
  { hidden, attention }: LayerGroup,
  rates: Stack['dropout'],
  { windows, window, shifted }: WindowSizes,
): Layer {
  const { tape } = net;
  const heads = attention?.heads ?? 1;
  const headDim = attention?.headDim ?? hidden;
  const bias = attention?.bias ?? true;
  const [makeQuery, makeKey, makeValue] = [1, 2, 3].map(() =>
    linear(net, hidden, hidden, { bias }),
  );
  const out = linear(net, hidden, hidden);
  const span = (2 * (attention?.window ?? window) - 1) ** 2;
  const table = net.parameter([span, heads]);
  const tokens = window ** 2;
  const shape = {
    batch: windows,
    heads,
    kvHeads: heads,
    queries: tokens,
    keys: tokens,
    headDim,
    valueDim: headDim,
    dropout: rates.attention,
  };
  return (input) =>
    tape.scope(() => {
      const x = tape.own(input);
      const [query, key, value] = [makeQuery, makeKey, makeValue].map((make) => make?.(x));
      if (!query || !key || !value) return x;
      const mask = biasFor(net, table, tokens, heads, shifted ? windows : 1);
      return out(last(attend(net, { query, key, value, mask, causal: false, shape })));
    });
}

/** A learned number for each pair of a window; moved windows have their own, which is stored. */
function biasFor(net: Net, table: Parameter, tokens: number, heads: number, copies: number): Mask {
  const { tape } = net;
  const { width } = table;
  const found = tape.run({ elements: tokens * tokens * heads, width, inputs: [table] });
  const elements = copies * heads * tokens * tokens;
  const low = net.low;
  const sum =
    copies === 1
      ? last(copy(net, last(found)))
      : last(tape.run({ elements, width, inputs: [last(found)] }));
  const aligned = Math.ceil(tokens / maskStep) * maskStep;
  const tensor = tape.run({
    elements: copies * heads * tokens * aligned,
    width: low,
    inputs: [sum],
  });
  return { tensor, boolean: false };
}
