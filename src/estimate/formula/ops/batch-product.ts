import type { Net } from '../run/net.js';
import type { Tensor } from '../run/tensor.js';

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
