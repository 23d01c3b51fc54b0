import type { LayerGroup, Stack } from '../../../model/model.js';
import { NoFormula } from '../checks.js';
import { activate } from '../ops/activation.js';
import { convolution } from '../ops/convolution.js';
import { crossEntropy, lookUp } from '../ops/embedding.js';
import { plainFeedForward } from '../ops/feed-forward.js';
import { product } from '../ops/linear.js';
import { multiHead } from '../ops/multi-head.js';
import { type Layer, layerNorm } from '../ops/norm.js';
import { add, dropout } from '../ops/pointwise.js';
import type { Net } from '../run/net.js';
import { last, type Tensor } from '../run/tape.js';
import { type Build, stackOf } from './context.js';

/** Positions of the decoder are looked up for each sample; heads are copied apart. */
interface Call {
  batch: number;
  sequence: number;
  memory: Tensor | undefined;
  memorySequence: number;
}

/** Spectra through two convolutions and an encoder; a decoder that looks back at it. */
export const whisper: Build = (input) => {
  const { net, model, workload } = input;
  const { tape } = net;
  if (model.head !== 'lm') throw new NoFormula(`the class ${model.className}`);
  const speech = stackOf(model, 'speech');
  const text = stackOf(model, 'decoder');
  if (speech.input.kind !== 'audio' || text.input.kind !== 'tokens') {
    throw new Error('the model takes sound and text');
  }
  const { hidden } = speech;
  const { channels, maxPositions } = speech.input;
  const positions = maxPositions === 'unknown' ? 1 : maxPositions;
  const frames = 2 * positions;
  const line = (inputs: number, step: number) =>
    convolution(net, {
      channels: inputs,
      outputs: hidden,
      kernel: [1, 3],
      stride: [1, step],
      padding: [0, 1],
    });
  const first = line(channels, 1);
  const second = line(hidden, 2);
  const encoderPositions = net.parameter([positions, hidden], { frozen: true });
  const call: Call = { batch: 1, sequence: 1, memory: undefined, memorySequence: positions };
  const encoder = layersOf(net, speech, call, false);
  const encoderNorm = layerNorm(net, hidden);
  const table = net.parameter([text.input.vocabulary, hidden]);
  const targetPositions = net.parameter([
    text.input.maxPositions === 'unknown' ? 1 : text.input.maxPositions,
    hidden,
  ]);
  const decoder = layersOf(net, text, call, true);
  const decoderNorm = layerNorm(net, hidden);
  const own = model.tied ? table : net.parameter([model.outputs, hidden]);
  const { batch } = workload;
  const targets = workload.targetSequence ?? workload.sequence ?? 1;
  const through = (layers: readonly Layer[], start: Tensor, needs: readonly Tensor[]): Tensor => {
    let x = start;
    for (const layer of layers) {
      const before = x;
      x = net.block(before, layer, needs);
      tape.drop(before);
    }
    return x;
  };
  return {
    batch: () => [tape.fresh(batch * channels * frames, net.width), tape.fresh(batch * targets, 8)],
    forward: ([sound]) =>
      tape.scope(() => {
        if (sound === undefined) throw new Error('a batch has sound');
        Object.assign(call, { batch, sequence: positions, memory: undefined });
        const wide = activate(net, 'gelu', last(first(sound, [batch, 1, frames])));
        const narrow = activate(net, 'gelu', last(second(last(wide), [batch, 1, frames])));
        const placed = add(net, last(narrow), encoderPositions);
        const start = dropout(net, last(placed), speech.dropout.embedding);
        start.passing = false;
        const memory = encoderNorm(last(through(encoder, start, [])));
        const words = lookUp(net, table, batch * targets, tape.fresh(batch * targets, 8));
        const where = last(lookUp(net, targetPositions, batch * targets));
        const begun = dropout(net, last(add(net, last(words), where)), text.dropout.embedding);
        begun.passing = false;
        Object.assign(call, { sequence: targets, memory });
        const x = decoderNorm(last(through(decoder, begun, [memory])));
        const logits = product(net, x, own, undefined, hidden, model.outputs);
        return crossEntropy(net, logits);
      }),
  };
};

function layersOf(net: Net, stack: Stack, call: Call, decodes: boolean): Layer[] {
  return stack.layers.flatMap((group) =>
    Array.from({ length: group.count }, () => block(net, group, stack.dropout, call, decodes)),
  );
}

function block(
  net: Net,
  group: LayerGroup,
  rates: Stack['dropout'],
  call: Call,
  decodes: boolean,
): Layer {
  const { tape } = net;
  const { hidden, attention, feedForward } = group;
  const sizes = {
    heads: attention?.heads ?? 1,
    headDim: attention?.headDim ?? hidden,
    dropout: rates.attention,
    keyBias: false,
    scalesQuery: true,
    copiesHeads: true,
  };
  const own = multiHead(net, hidden, { ...sizes, causal: decodes });
  const ownNorm = layerNorm(net, hidden);
  const cross = decodes ? multiHead(net, hidden, sizes) : undefined;
  const crossNorm = decodes ? layerNorm(net, hidden) : undefined;
  const feed = plainFeedForward(net, hidden, feedForward, {
    dropout: rates.hidden,
    innerDropout: rates.activation,
  });
  const norm = layerNorm(net, hidden);
  const remembers = decodes && !net.settings.training;
  return (x) =>
    tape.scope(() => {
      const { batch, sequence, memory, memorySequence } = call;
      const attended = own(last(ownNorm(x)), { batch, queries: sequence, remembers });
      let y = add(net, x, last(dropout(net, last(attended), rates.hidden)));
      if (cross !== undefined && crossNorm !== undefined && memory !== undefined) {
        const place = { batch, queries: sequence, keys: memorySequence, memory, remembers };
        const seen = cross(last(crossNorm(y)), place);
        y = add(net, y, last(dropout(net, last(seen), rates.hidden)));
      }
      return add(net, y, last(feed(last(norm(y)))));
    });
}
