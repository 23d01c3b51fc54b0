import type { Net } from '../run/net.js';
import { last, type Tensor } from '../run/tape.js';

/** The sum of two tensors; the wider type wins, and the smaller tensor is repeated. */
export function add(net: Net, a: Tensor, b: Tensor): Tensor {
  const { tape } = net;
  const elements = Math.max(a.elements, b.elements);
  const width = Math.max(a.width, b.width);
  return tape.run({
    elements,
    width,
    inputs: [a, b],
    backward: (gradient) => {
      for (const input of [a, b]) {
        if (input.source === undefined) continue;
        const same = input.elements === elements && input.width === width;
        if (same) tape.pass(input, gradient);
        else tape.give(input, tape.grad(input));
      }
    },
  });
}

/** The product of two tensors; each is kept where the other needs a gradient. */
export function multiply(net: Net, a: Tensor, b: Tensor): Tensor {
  const { tape } = net;
  const elements = Math.max(a.elements, b.elements);
  const width = Math.max(a.width, b.width);
  const saves = [...(b.source ? [a] : []), ...(a.source ? [b] : [])];
  return tape.run({
    elements,
    width,
    inputs: [a, b],
    saves,
    backward: () => {
      for (const input of [a, b]) {
        if (input.source === undefined) continue;
        const whole = tape.grad({ elements, width });
        if (input.elements === elements && input.width === width) tape.give(input, whole);
        else {
          tape.give(input, tape.grad(input));
          tape.recorder.drop(whole);
        }
      }
    },
  });
}

/** Times, plus or divided by a number, or a negation: nothing is kept. */
export function scale(net: Net, x: Tensor, width = x.width): Tensor {
  return net.tape.run({ elements: x.elements, width, inputs: [x] });
}

/** Plus a number: the gradient is the same. */
export function shift(net: Net, x: Tensor): Tensor {
  const { tape } = net;
  return tape.run({
    elements: x.elements,
    width: x.width,
    inputs: [x],
    backward: (gradient) => tape.pass(x, gradient),
  });
}

/** One value for each value, worked out again from the input. */
export function fromInput(net: Net, x: Tensor): Tensor {
  return net.tape.run({ elements: x.elements, width: x.width, inputs: [x], saves: [x] });
}

/** One value for each value, whose gradient follows from the result. */
export function fromResult(net: Net, x: Tensor): Tensor {
  return net.tape.run({ elements: x.elements, width: x.width, inputs: [x], savesResult: true });
}

/** A copy, as of a tensor that must lie in one run. */
export function copy(net: Net, x: Tensor): Tensor {
  const { tape } = net;
  return tape.run({
    elements: x.elements,
    width: x.width,
    inputs: [x],
    backward: (gradient) => tape.pass(x, gradient),
  });
}

/** In training it keeps a mask of one byte for each value, made first. */
export function dropout(net: Net, x: Tensor, probability: number): Tensor {
  if (probability === 0 || !net.settings.training) return x;
  const { tape } = net;
  const { elements, width } = x;
  const mask = tape.fresh(elements, 1);
  const result = tape.run({ elements, width, inputs: [x], saves: [mask], lends: true });
  tape.drop(mask);
  if (x.passing) tape.drop(x);
  return result;
}

/** Leaves out whole samples of a branch; a random number for each sample. */
export function dropPath(net: Net, x: Tensor, probability: number, samples: number): Tensor {
  if (probability === 0 || !net.settings.training) return x;
  const { tape } = net;
  return tape.scope(() => {
    const random = tape.fresh(samples, x.width);
    const floored = tape.fresh(samples, x.width);
    tape.drop(random);
    const scaled = scale(net, x);
    return multiply(net, last(scaled), last(floored));
  });
}

/** Rows of a softmax, kept for the backward pass. */
export function softmax(net: Net, x: Tensor, width = x.width): Tensor {
  const { tape } = net;
  return tape.run({
    elements: x.elements,
    width,
    inputs: [x],
    savesResult: true,
    backward: () => {
      const own = tape.grad(x);
      tape.recorder.scratch([x.elements * width]);
      tape.give(x, own);
    },
  });
}
