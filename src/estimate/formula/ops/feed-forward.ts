import type { FeedForward } from '../../../model/model.js';
import type { Net } from '../run/net.js';
import { last, type Tensor } from '../run/tape.js';
import { activate } from './activation.js';
import { linear } from './linear.js';
import type { Layer } from './norm.js';
import { dropout, multiply } from './pointwise.js';

/** Two matrices up, one of them through the activation, their product, and one matrix down. */
export function gatedFeedForward(
  net: Net,
  hidden: number,
  { inner, activation, bias }: Pick<FeedForward, 'inner' | 'activation' | 'bias'>,
  fused = false,
): Layer {
  const { tape } = net;
  if (fused) {
    const both = linear(net, hidden, 2 * inner, { bias });
    const down = linear(net, inner, hidden, { bias });
    return (input) =>
      tape.scope(() => {
        const x = tape.own(input);
        const wide = both(x);
        const [gate, up] = tape.split(wide, [wide.elements / 2, wide.elements / 2]);
        if (gate === undefined || up === undefined) return x;
        return down(last(multiply(net, up, last(activate(net, activation, gate)))));
      });
  }
  const gate = linear(net, hidden, inner, { bias });
  const up = linear(net, hidden, inner, { bias });
  const down = linear(net, inner, hidden, { bias });
  return (input) =>
    tape.scope(() => {
      const x = tape.own(input);
      const gated = last(activate(net, activation, last(gate(x))));
      return down(last(multiply(net, gated, last(up(x)))));
    });
}

interface PlainOptions {
  readonly transposed?: boolean;
  readonly dropout?: number;
  readonly innerDropout?: number;
}

/** One matrix up, the activation, one matrix down. */
export function plainFeedForward(
  net: Net,
  hidden: number,
  { inner, activation, bias }: Pick<FeedForward, 'inner' | 'activation' | 'bias'>,
  options: PlainOptions = {},
): Layer {
  const { tape } = net;
  const { transposed = false, dropout: rate = 0, innerDropout = 0 } = options;
  const up = linear(net, hidden, inner, { bias, transposed });
  const down = linear(net, inner, hidden, { bias, transposed });
  return (input) =>
    tape.scope(() => {
      const x = tape.own(input);
      const wide: Tensor = dropout(net, last(activate(net, activation, last(up(x)))), innerDropout);
      return dropout(net, last(down(last(wide))), rate);
    });
}
