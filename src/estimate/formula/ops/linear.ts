import type { Net, Parameter } from '../run/net.js';
import type { Block } from '../run/recorder.js';
import { last, type Tensor } from '../run/tape.js';
import type { Layer } from './norm.js';
import { add, scale } from './pointwise.js';

interface LinearOptions {
  readonly bias?: boolean;
  /** GPT-2 keeps its matrices the other way round. */
  readonly transposed?: boolean;
  /** peft leaves the output layer alone. */
  readonly adapters?: boolean;
}

/** A matrix product with a bias, as a layer of its own. */
export function linear(
  net: Net,
  input: number,
  output: number,
  { bias = true, transposed = false, adapters = true }: LinearOptions = {},
): Layer {
  const { packing, loraRank } = net.settings;
  const shape = transposed ? [input, output] : [output, input];
  const packed = adapters && packing !== undefined;
  const weight = net.parameter(shape, {
    frozen: packed,
    ...(packed ? { bytes: Math.ceil(input * output * packing.bytesPerParameter) } : {}),
  });
  const offset = bias ? net.parameter([output]) : undefined;
  const base = packed
    ? (x: Tensor) => packedProduct(net, x, weight, offset, input, output, packing.unpacks)
    : (x: Tensor) => product(net, x, weight, offset, input, output);
  if (!adapters || loraRank === undefined) return base;
  // Adapters of a model in 16 bits are kept in 32.
  const down = net.parameter([loraRank, input], { width: 4, adapter: true });
  const up = net.parameter([output, loraRank], { width: 4, adapter: true });
  return (x) =>
    net.tape.scope(() => {
      const given = net.tape.own(x);
      const result = base(given);
      const wide = net.cast(given, 4);
      const inner = last(product(net, wide, down, undefined, input, loraRank));
      const outer = last(product(net, inner, up, undefined, loraRank, output));
      const sum = add(net, last(result), last(scale(net, outer)));
      return net.cast(last(sum), result.width);
    });
}

/** The product itself; the matrix may be another layer's, as the embedding's. */
export function product(
  net: Net,
  given: Tensor,
  matrix: Tensor,
  bias: Tensor | undefined,
  input: number,
  output: number,
): Tensor {
  const { tape, settings } = net;
  const width = settings.autocast ?? given.width;
  const offset = bias === undefined ? undefined : net.weight(bias, width);
  const weight = net.weight(matrix, width);
  const x = net.castFor(given, width);
  const elements = (x.elements / input) * output;
  const inputs = [x, weight, ...(offset ? [offset] : [])];
  const result = tape.run({
    elements,
    width,
    inputs,
    saves: [...(weight.source ? [x] : []), ...(x.source ? [weight] : [])],
    lends: true,
    backward: () => {
      if (x.source) tape.give(x, productGrad(net, x));
      if (weight.source) tape.give(weight, productGrad(net, weight));
      if (offset?.source) {
        const sums = tape.grad(offset);
        tape.recorder.scratch(columnSumScratch(x.elements / input, output));
        tape.give(offset, sums);
      }
    },
  });
  net.product(offset !== undefined);
  for (const one of [...inputs, given]) if (one.passing) tape.drop(one);
  return result;
}

function productGrad(net: Net, tensor: Tensor): Block {
  const block = net.tape.grad(tensor);
  net.product();
  return block;
}

/** The matrix is unpacked for each product, forward and backward, and not kept. */
function packedProduct(
  net: Net,
  given: Tensor,
  matrix: Parameter,
  bias: Tensor | undefined,
  input: number,
  output: number,
  unpacks: boolean,
): Tensor {
  const { tape, settings } = net;
  const width = settings.autocast ?? given.width;
  const x = net.castFor(given, width);
  const whole = unpacks ? matrix.elements * width : x.elements;
  const unpacked = tape.recorder.take(whole, 'temporary');
  const elements = (x.elements / input) * output;
  const result = tape.run({
    elements,
    width,
    inputs: [x, ...(bias ? [bias] : [])],
    // Eight bits keep the input as it was packed, to multiply it again.
    ...(unpacks ? {} : { keeps: [x.elements] }),
    backward: () => {
      const again = tape.recorder.take(matrix.elements * width);
      if (x.source) tape.give(x, productGrad(net, x));
      tape.recorder.drop(again);
      if (bias?.source) tape.give(bias, tape.grad(bias));
    },
  });
  net.product();
  tape.recorder.drop(unpacked);
  if (given.passing) tape.drop(given);
  return result;
}

/**
 * A product for each head of each sample. Heads that do not lie in one run are copied first, and the
 * copy is what is kept.
 */
export function batchProduct(
  net: Net,
  left: Tensor,
  right: Tensor,
  elements: number,
  { copies }: { readonly copies: readonly [boolean, boolean] },
): Tensor {
  const { tape } = net;
  const [a, b] = [left, right].map((one, index) =>
    copies[index] === true ? copied(net, one) : one,
  );
  if (a === undefined || b === undefined) return left;
  const result = tape.run({
    elements,
    width: a.width,
    inputs: [a, b],
    saves: [...(b.source ? [a] : []), ...(a.source ? [b] : [])],
  });
  net.product();
  return result;
}

function copied(net: Net, x: Tensor): Tensor {
  const { tape } = net;
  const copy = tape.run({
    elements: x.elements,
    width: x.width,
    inputs: [x],
    lends: true,
    backward: (gradient) => tape.pass(x, gradient),
  });
  copy.passing = true;
  return copy;
}

const threads = 512;
const warp = 32;
const fewestValues = 16;
const maxValues = 256;
const vector = 4;
/** Multiprocessors and threads of the H200, which the other figures come from too. */
const multiprocessors = 132;
const threadsEach = 2048;

/**
 * Returns the scratch bytes of PyTorch's reduction kernel for the sum of `rows` rows of `columns`
 * values into one row, as for the gradient of a bias.
 */
export function columnSumScratch(rows: number, columns: number): readonly number[] {
  let step = vector;
  while (columns % step !== 0) step /= 2;
  const most = threads / step;
  const dim0 = powerBelow(Math.floor(columns / step), most);
  const dim1 = powerBelow(rows, most);
  const height = Math.min(dim1, Math.floor(most / Math.min(dim0, warp)));
  const width = Math.min(dim0, Math.floor(most / height));
  if (rows < Math.min(height * fewestValues, maxValues)) return [];
  const target = multiprocessors * Math.floor(threadsEach / (width * height));
  const grid = Math.ceil(Math.floor(columns / step) / width);
  const values = Math.ceil(rows / height);
  if (values < maxValues || grid > target) return [];
  const blocks = Math.max(
    Math.min(Math.ceil(target / grid), Math.ceil(values / fewestValues)),
    Math.ceil(values / maxValues),
  );
  return blocks <= 1 ? [] : [4 * columns * blocks * width * step, 4 * grid];
}

function powerBelow(value: number, most: number): number {
  return value < most ? 2 ** Math.floor(Math.log2(Math.max(1, value))) : most;
}
