import type { Net } from '../run/net.js';
import { last, type Tensor } from '../run/tensor.js';

/** Cross entropy over classes: a log of the softmax that is kept, and two gradients of its size. */
export function crossEntropy(net: Net, given: Tensor): Tensor {
  const { tape } = net;
  return tape.scope(() => {
    const logits = tape.own(given);
    net.putOut(logits);
    const { elements, width } = logits;
    const logs = tape.run({ elements, width, inputs: [logits], savesResult: true });
    // Autocast takes the mean in 32 bits, from a copy.
    const wide = net.settings.autocast === undefined ? logs : net.cast(last(logs), 4);
    const inputs = [last(wide)];
    return tape.run({ elements: 1, width: wide.width, inputs, saves: [wide], keeps: [wide.width] });
  });
}

/** The loss of a language model: in 32 bits, with labels moved by one. */
export function causalLoss(net: Net, given: Tensor, tokens: number): Tensor {
  const { tape } = net;
  return tape.scope(() => {
    const logits = tape.own(given);
    net.putOut(logits);
    const wide = net.cast(logits, 4);
    const padded = tape.fresh(tokens + 1, 8);
    const shifted = tape.fresh(tokens, 8);
    tape.drop(padded);
    const loss = crossEntropy(net, wide);
    tape.drop(shifted);
    return loss;
  });
}
