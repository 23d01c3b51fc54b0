import type { LayerGroup, Stack } from '../../../model/model.js';
import { NoFormula } from '../checks.js';
import { activate } from '../ops/activation.js';
import type { Mask } from '../ops/attention.js';
import { crossEntropy, lookUp } from '../ops/embedding.js';
import { plainFeedForward } from '../ops/feed-forward.js';
import { linear, product } from '../ops/linear.js';
import { multiHead } from '../ops/multi-head.js';
import { type Layer, rmsNorm } from '../ops/norm.js';
import { add, dropout, multiply, scale } from '../ops/pointwise.js';
import type { Net, Parameter } from '../run/net.js';
import { last, type Tensor } from '../run/tape.js';
import { type Build, type BuildInput, stackOf, targetLength } from './context.js';

interface Call {
  readonly batch: number;
  readonly sequence: number;
  readonly memory?: Tensor | undefined;
  readonly memorySequence?: number;
  bias: Mask | undefined;
}

type StackRun = (words: Tensor, call: Omit<Call, 'bias'>) => Tensor;

/** An encoder and a decoder; a learned bias by distance, made once, reaches every layer. */
export const t5: Build = (input) => {
  const { net, model, workload } = input;
  const { tape } = net;
  if (model.head !== 'lm') throw new NoFormula(`the class ${model.className}`);
  const encoder = stackOf(model, 'encoder');
  const decoder = stackOf(model, 'decoder');
  const { hidden } = encoder;
  const table = net.parameter([model.outputs, hidden]);
  const encode = stackRun(input, encoder, false);
  const decode = stackRun(input, decoder, true);
  const { batch } = workload;
  const sequence = workload.sequence ?? 1;
  const targets = targetLength(workload);
  return {
    batch: () => [tape.fresh(batch * sequence, 8), tape.fresh(batch * targets, 8)],
    forward: ([ids]) =>
      tape.scope(() => {
        const words = lookUp(net, table, batch * sequence, ids);
        const memory = encode(last(words), { batch, sequence });
        const shifted = tape.fresh(batch * targets, 8);
        const targetWords = lookUp(net, table, batch * targets, shifted);
        const x = decode(last(targetWords), {
          batch,
          sequence: targets,
          memory,
          memorySequence: sequence,
        });
        const scaled = model.tied ? scale(net, last(x)) : x;
        const logits = product(net, last(scaled), table, undefined, hidden, model.outputs);
        // Labels are part of the batch in inference too, so that the loss is always computed.
        return crossEntropy(net, logits);
      }),
  };
};

function stackRun({ net, model }: BuildInput, stack: Stack, decodes: boolean): StackRun {
  const { tape } = net;
  const { hidden, dropout: rates } = stack;
  const table = model.tensors.find(({ name }) => name.includes('relative_attention_bias'));
  const bias = net.parameter(table?.shape ?? [1, 1]);
  const call: { -readonly [K in keyof Call]: Call[K] } = { batch: 1, sequence: 1, bias: undefined };
  const layers = stack.layers.flatMap((group) =>
    Array.from({ length: group.count }, () => block(net, group, rates, call, decodes)),
  );
  const norm = rmsNorm(net, hidden);
  return (words, given) =>
    tape.scope(() => {
      let x = dropout(net, tape.own(words), rates.embedding);
      Object.assign(call, { memory: undefined }, given);
      call.bias = biasFor(net, bias, given.sequence, decodes);
      const needs = [call.bias.tensor, ...(call.memory ? [call.memory] : [])];
      for (const layer of layers) {
        const before = x;
        x = net.block(before, layer, needs);
        tape.drop(before);
      }
      return dropout(net, last(norm(last(x))), rates.embedding);
    });
}

/** A number for each pair and head; its dimensions lie in another order than kernels want. */
function biasFor(net: Net, table: Parameter, sequence: number, decodes: boolean): Mask {
  const { tape } = net;
  const pairs = sequence * sequence;
  const buckets = tape.fresh(pairs, 8);
  const found = lookUp(net, table, pairs, buckets);
  const masked = decodes ? scale(net, last(found)) : found;
  tape.drop(buckets);
  return { tensor: masked, boolean: false, strided: true };
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
    bias: false,
  };
  const own = multiHead(net, hidden, sizes);
  const cross = decodes ? multiHead(net, hidden, sizes) : undefined;
  const feed = feedForward.gated
    ? gatedWithDropout(net, group, rates)
    : plainFeedForward(net, hidden, feedForward, { innerDropout: rates.activation });
  const norms = Array.from({ length: group.norms }, () => rmsNorm(net, hidden));
  const [first, second, third] = norms;
  if (first === undefined || second === undefined) throw new Error('a layer has two norms');
  return (x) =>
    tape.scope(() => {
      const { batch, sequence, memory, memorySequence } = call;
      const attended = own(last(first(x)), {
        batch,
        queries: sequence,
        mask: call.bias,
        remembers: decodes,
      });
      let y = add(net, x, last(dropout(net, last(attended), rates.hidden)));
      if (cross !== undefined && memory !== undefined) {
        const seen = cross(last(second(y)), {
          batch,
          queries: sequence,
          keys: memorySequence ?? sequence,
          memory,
          remembers: true,
        });
        y = add(net, y, last(dropout(net, last(seen), rates.hidden)));
      }
      const fed = feed(last((third ?? second)(y)));
      return add(net, y, last(dropout(net, last(fed), rates.hidden)));
    });
}

function gatedWithDropout(net: Net, group: LayerGroup, rates: Stack['dropout']): Layer {
  const { tape } = net;
  const { hidden, feedForward } = group;
  const { inner, activation } = feedForward;
  const gate = linear(net, hidden, inner, { bias: false });
  const up = linear(net, hidden, inner, { bias: false });
  const down = linear(net, inner, hidden, { bias: false });
  return (input) =>
    tape.scope(() => {
      const x = tape.own(input);
      const gated = activate(net, activation, last(gate(x)));
      const mixed = multiply(net, last(gated), last(up(x)));
      return down(last(dropout(net, last(mixed), rates.activation)));
    });
}
