import { NoFormula } from '../checks.js';
import type { Net } from '../run/net.js';
import { last, type Tensor } from '../run/tape.js';
import { add, fromInput, fromResult, multiply, scale, shift } from './pointwise.js';

type Activation = (net: Net, x: Tensor) => Tensor;

/** Written out in Python with a cube and a tanh, so that most of its steps are kept. */
function writtenOutGelu(net: Net, input: Tensor): Tensor {
  const { tape } = net;
  return tape.scope(() => {
    const x = tape.own(input);
    const half = scale(net, x);
    const cube = last(fromInput(net, net.castFor(x, autocastFloat(net, x))));
    const sum = last(add(net, x, last(scale(net, cube))));
    const tanh = last(fromResult(net, last(scale(net, sum))));
    return multiply(net, last(half), last(shift(net, tanh)));
  });
}

/** Autocast computes powers and exponentials in 32 bits. */
function autocastFloat(net: Net, x: Tensor): number {
  return net.settings.autocast === undefined ? x.width : 4;
}

function quickGelu(net: Net, input: Tensor): Tensor {
  const { tape } = net;
  return tape.scope(() => {
    const x = tape.own(input);
    const gate = last(fromResult(net, last(scale(net, x))));
    return multiply(net, x, gate);
  });
}

/** Bloom's own: only its input is kept, and its steps are taken again in backward. */
function bloomGelu(net: Net, x: Tensor): Tensor {
  const { tape } = net;
  const { elements, width } = x;
  const step = elements * width;
  return tape.run({
    elements,
    width,
    inputs: [x],
    saves: [x],
    scratch: [step, step],
    backward: () => {
      tape.recorder.scratch([step, step, step]);
      tape.give(x, tape.grad(x));
    },
  });
}

const activations: Readonly<Record<string, Activation>> = {
  gelu: fromInput,
  gelu_pytorch_tanh: fromInput,
  gelu_python_tanh: writtenOutGelu,
  gelu_new: writtenOutGelu,
  gelu_fast: writtenOutGelu,
  quick_gelu: quickGelu,
  bloom_gelu: bloomGelu,
  silu: fromInput,
  swish: fromInput,
  relu: fromResult,
  relu2: (net, x) => fromInput(net, last(fromResult(net, x))),
  tanh: fromResult,
  sigmoid: fromResult,
};

export function activate(net: Net, name: string, x: Tensor): Tensor {
  const activation = activations[name];
  if (activation === undefined) throw new NoFormula(`the activation "${name}"`);
  return activation(net, x);
}
