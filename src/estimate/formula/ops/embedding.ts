import type { Net, Parameter } from '../run/net.js';
import type { Tensor } from '../run/tensor.js';

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
