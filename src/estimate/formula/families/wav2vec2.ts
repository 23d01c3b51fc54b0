import type { LayerGroup, Stack } from '../../../model/model.js';
import { NoFormula } from '../checks.js';
import { activate } from '../ops/activation.js';
import { convolution } from '../ops/convolution.js';
import { crossEntropy } from '../ops/embedding.js';
import { plainFeedForward } from '../ops/feed-forward.js';
import { linear } from '../ops/linear.js';
import { multiHead } from '../ops/multi-head.js';
import { type Layer, layerNorm } from '../ops/norm.js';
import { add, copy, dropout } from '../ops/pointwise.js';
import type { Net } from '../run/net.js';
import { last, type Tensor } from '../run/tape.js';
import { type Build, stackOf } from './context.js';

/** A wave through many convolutions, then an encoder; `sequence` counts samples of sound. */
export const wav2vec2: Build = (input) => {
  const { net, model, workload } = input;
  const { tape, settings } = net;
  if (model.head !== 'ctc') throw new NoFormula(`the class ${model.className}`);
  const stack = stackOf(model, 'speech');
  const { hidden, dropout: rates } = stack;
  if (stack.input.kind !== 'audio') throw new Error('the model takes sound');
  const { convolutions } = stack.input;
  const { batch } = workload;
  const samples = workload.sequence ?? 1;
  const named = (end: string) => model.tensors.filter(({ name }) => name.endsWith(end));
  const bias = named('conv_layers.*.conv.bias').length > 0;
  const normed = named('conv_layers.*.layer_norm.weight').reduce((n, { count }) => n + count, 0);
  let length = samples;
  const front = convolutions.map(({ channels, kernel, stride }, index) => {
    const inputs = convolutions[index - 1]?.channels ?? 1;
    const from = length;
    length = Math.max(1, Math.floor((length - kernel) / stride) + 1);
    const shape = { channels: inputs, outputs: channels, bias };
    const run = convolution(net, { ...shape, kernel: [1, kernel], stride: [1, stride] });
    const norm = index < normed ? layerNorm(net, channels) : undefined;
    return { run, norm, from };
  });
  const extracted = convolutions.at(-1)?.channels ?? 1;
  const frames = length;
  const featureNorm = layerNorm(net, extracted);
  const project = linear(net, extracted, hidden);
  if (named('masked_spec_embed').length > 0) net.parameter([hidden]);
  const position = positionConvolution(net, hidden, named('weight.original1')[0]?.shape);
  const norm = layerNorm(net, hidden);
  const layers = stack.layers.flatMap((group) =>
    Array.from({ length: group.count }, () => block(net, group, rates, batch, frames)),
  );
  const classify = linear(net, hidden, model.outputs, { adapters: false });
  return {
    batch: () => [tape.fresh(batch * samples, net.width), tape.fresh(batch, 8)],
    forward: ([sound]) =>
      tape.scope(() => {
        if (sound === undefined) throw new Error('a batch has sound');
        let x = sound;
        for (const { run, norm: own, from } of front) {
          const before = x;
          let y = run(before, [batch, 1, from]);
          if (own !== undefined) y = own(last(y));
          x = activate(net, 'gelu', last(y));
          if (before !== sound) tape.drop(before);
        }
        const features = featureNorm(last(copy(net, last(x))));
        let y = dropout(net, last(project(last(features))), rates.embedding);
        y.passing = false;
        const placed = activate(net, 'gelu', last(position(y, [batch, 1, frames])));
        y = dropout(net, last(norm(last(add(net, last(y), last(placed))))), rates.hidden);
        y.passing = false;
        for (const layer of layers) {
          const before = y;
          y = net.block(before, layer);
          tape.drop(before);
        }
        const scores = classify(last(dropout(net, last(y), rates.hidden)));
        return settings.training ? crossEntropy(net, last(net.cast(last(scores), 4))) : scores;
      }),
  };
};

/** A wide convolution over time, whose weight is made from a direction and a length. */
function positionConvolution(net: Net, hidden: number, shape: readonly number[] = []) {
  const [, perGroup = hidden, kernel = 1] = shape;
  net.parameter([1, 1, kernel]);
  const run = convolution(net, {
    channels: hidden,
    outputs: hidden,
    groups: Math.max(1, Math.floor(hidden / perGroup)),
    kernel: [1, kernel],
    stride: [1, 1],
    padding: [0, Math.floor(kernel / 2)],
  });
  return (x: Tensor, size: readonly [number, number, number]) => {
    const whole = run(x, size);
    const [cut] = net.tape.split(last(whole), [x.elements]);
    return cut ?? whole;
  };
}

function block(
  net: Net,
  { hidden, attention, feedForward }: LayerGroup,
  rates: Stack['dropout'],
  batch: number,
  frames: number,
): Layer {
  const { tape } = net;
  const attend = multiHead(net, hidden, {
    heads: attention?.heads ?? 1,
    headDim: attention?.headDim ?? hidden,
    dropout: rates.attention,
  });
  const first = layerNorm(net, hidden);
  const feed = plainFeedForward(net, hidden, feedForward, {
    dropout: rates.hidden,
    innerDropout: rates.activation,
  });
  const second = layerNorm(net, hidden);
  return (x) =>
    tape.scope(() => {
      const attended = dropout(net, last(attend(x, { batch, queries: frames })), rates.hidden);
      const middle = first(last(add(net, x, last(attended))));
      return second(last(add(net, middle, last(feed(middle)))));
    });
}
