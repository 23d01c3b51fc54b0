import type { Net, Parameter } from '../run/net.js';
import { last, type Tensor } from '../run/tape.js';
import { fromInput, fromResult, multiply, shift } from './pointwise.js';

export type Layer = (x: Tensor) => Tensor;

/** One kernel; keeps its input, and two numbers of 32 bits for each row. */
export function layerNorm(net: Net, size: number, affine = true): Layer {
  const weight = affine ? net.parameter([size]) : undefined;
  const bias = affine ? net.parameter([size]) : undefined;
  return (input) => normOp(net, input, size, [weight, bias]);
}

function normOp(
  net: Net,
  input: Tensor,
  size: number,
  affine: readonly (Parameter | undefined)[],
): Tensor {
  const { tape, settings } = net;
  const x = net.castFor(input, settings.autocast === undefined ? input.width : 4);
  const learned = affine.flatMap((one) => (one === undefined ? [] : [one]));
  const statistics = (x.elements / size) * 4;
  const result = tape.run({
    elements: x.elements,
    width: x.width,
    inputs: [x, ...learned],
    saves: [x],
    keeps: [statistics, statistics],
  });
  if (input.passing) tape.drop(input);
  return result;
}

/** Llama's and T5's, op by op: in 32 bits inside, whatever the model's type. */
export function rmsNorm(net: Net, size: number): Layer {
  const weight = net.parameter([size]);
  return (input) => {
    const { tape } = net;
    return tape.scope(() => {
      const before = tape.own(input);
      const x = net.cast(before, 4);
      if (x !== before) tape.drop(before);
      const normal = last(multiply(net, x, rowScale(net, x, size)));
      const typed = net.cast(normal, before.width);
      tape.drop(x);
      return multiply(net, weight, last(typed));
    });
  };
}

/** Gemma's: the weight is added to one and multiplied in 32 bits. */
export function gemmaNorm(net: Net, size: number): Layer {
  const weight = net.parameter([size]);
  return (input) => {
    const { tape } = net;
    return tape.scope(() => {
      const before = tape.own(input);
      const x = net.cast(before, 4);
      const normal = multiply(net, x, rowScale(net, x, size));
      if (x !== before) tape.drop(x);
      const wide = net.cast(weight, 4);
      const scaled = multiply(net, last(normal), last(shift(net, wide)));
      return net.cast(last(scaled), before.width);
    });
  };
}

/** One over the root of the mean square of each row. */
function rowScale(net: Net, x: Tensor, size: number): Tensor {
  const { tape } = net;
  const rows = x.elements / size;
  const squares = last(fromInput(net, x));
  const mean = tape.run({
    elements: rows,
    width: 4,
    inputs: [squares],
  });
  return last(fromResult(net, last(shift(net, last(mean)))));
}
