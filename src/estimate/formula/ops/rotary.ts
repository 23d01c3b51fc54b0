import type { Net } from '../run/net.js';
import { last, type Tensor } from '../run/tape.js';
import { add, multiply, scale } from './pointwise.js';

/** Cosines and sines by position, shared by all layers. */
export interface Rotation {
  readonly cos: Tensor;
  readonly sin: Tensor;
}

/** Made in 32 bits, kept in the type of the hidden states. */
export function rotationFor(net: Net, positions: number, dim: number, width: number): Rotation {
  const { tape } = net;
  const angles = tape.fresh(positions * dim, 4);
  const wideCos = tape.fresh(positions * dim, 4);
  const wideSin = tape.fresh(positions * dim, 4);
  const cos = net.cast(wideCos, width);
  const sin = net.cast(wideSin, width);
  for (const one of [angles, ...(cos === wideCos ? [] : [wideCos, wideSin])]) tape.drop(one);
  return { cos, sin };
}

/** Turns pairs of elements; `rotated` of a head's elements, where it is not all of them. */
export function rotate(net: Net, given: Tensor, { cos, sin }: Rotation, share = 1): Tensor {
  const { tape } = net;
  return tape.scope(() => {
    const x = tape.own(given);
    if (share === 1) return turn(net, x, cos, sin);
    const turned = x.elements * share;
    const [part, rest] = tape.split(x, [turned, x.elements - turned]);
    if (part === undefined || rest === undefined) return x;
    const result = last(turn(net, part, cos, sin));
    return concatenate(net, [result, rest]);
  });
}

function turn(net: Net, x: Tensor, cos: Tensor, sin: Tensor): Tensor {
  const { tape } = net;
  const half = Math.ceil(x.elements / 2);
  const straight = multiply(net, x, cos);
  const [second] = tape.split(x, [half]);
  const [first] = tape.split(x, [x.elements - half]);
  if (first === undefined || second === undefined) return x;
  const turned = last(concatenate(net, [last(scale(net, last(second))), last(first)]));
  return add(net, last(straight), last(multiply(net, turned, sin)));
}

/** One tensor after another; their gradients are parts of its gradient. */
export function concatenate(
  net: Net,
  inputs: readonly Tensor[],
  elements = inputs.reduce((sum, input) => sum + input.elements, 0),
): Tensor {
  const { tape } = net;
  return tape.run({
    elements,
    width: Math.max(...inputs.map(({ width }) => width)),
    inputs,
    backward: (gradient) => {
      for (const input of inputs) {
        if (input.source?.leaf === true) tape.give(input, tape.grad(input));
        else if (input.source) tape.pass(input, gradient);
      }
    },
  });
}
