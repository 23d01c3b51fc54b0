import type { Net, Parameter } from '../run/net.js';
import { last, type Tensor } from '../run/tape.js';

const indexBytes = 8;
/** Up to this many tokens the gradient is summed without sorting them. */
const unsortedTokens = 3072;
const rowsPerPartial = 10;

/** Rows of a table for each token; the gradient is a whole table. */
export function lookUp(net: Net, table: Parameter, tokens: number, indices?: Tensor): Tensor {
  const { tape } = net;
  const [rows = 1, size = 1] = table.shape;
  return tape.run({
    elements: tokens * size,
    width: table.width,
    inputs: [table],
    saves: indices === undefined ? [] : [indices],
    backward: () => {
      const whole = tape.grad(table);
      if (tokens > unsortedTokens) sortTokens(net, tokens, rows, size);
      tape.give(table, whole);
    },
  });
}

/** Tokens that are alike are brought together, and their rows summed in parts. */
function sortTokens(net: Net, tokens: number, rows: number, size: number): void {
  const list = tokens * indexBytes;
  net.tape.recorder.scratch([list, list, list, 2 * list]);
  const segments = Math.min(tokens, rows);
  const partials = Math.floor(tokens / rowsPerPartial) + segments;
  const few = segments * indexBytes;
  net.tape.recorder.scratch([
    list,
    list,
    list,
    few,
    few,
    partials * indexBytes,
    partials * size * 4,
  ]);
}

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
