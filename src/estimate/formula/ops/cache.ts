import type { Net } from '../run/net.js';
import type { Tensor } from '../run/tensor.js';

/** Keys or values, copied to where the next tokens will find them. */
export function remember(net: Net, x: Tensor, cache: boolean): Tensor {
  if (!cache) return x;
  const { recorder } = net.tape;
  const before = recorder.part;
  recorder.part = 'kv-cache';
  const copy = net.tape.run({ elements: x.elements, width: x.width, inputs: [x] });
  recorder.part = before;
  return net.keep(copy);
}
