import type { Family, FeedForward } from '../../../model/model.js';
import type { Net, Parameter } from '../run/net.js';
import { last, type Tensor } from '../run/tape.js';
import { activate } from './activation.js';
import { gatedFeedForward } from './feed-forward.js';
import { linear, product } from './linear.js';
import type { Layer } from './norm.js';
import { add, fromResult, multiply, softmax } from './pointwise.js';

/**
 * A choice among feed-forward parts, all tokens of one after those of another. Every token takes
 * `active` of them, so that their sum is known, whichever they are.
 */
export function experts(
  net: Net,
  hidden: number,
  { inner, activation, experts: choice }: FeedForward,
  family: Family,
): Layer {
  const { tape } = net;
  if (choice === undefined) throw new Error('these layers have experts');
  const { count, active, sharedInner } = choice;
  const gate = net.parameter([count, hidden]);
  const up = net.parameter([count, 2 * inner, hidden]);
  const down = net.parameter([count, hidden, inner]);
  const sized = { inner: sharedInner, activation, bias: false };
  const shared = sharedInner > 0 ? gatedFeedForward(net, hidden, sized) : undefined;
  const sharedGate = family === 'qwen2_moe' ? linear(net, hidden, 1, { bias: false }) : undefined;
  return (input) =>
    tape.scope(() => {
      const x = tape.own(input);
      const tokens = x.elements / hidden;
      const wide = family.startsWith('deepseek') ? net.castFor(x, 4) : x;
      const weights = route(net, wide, gate, hidden, count, active);
      const pairs = tokens * active;
      tape.fresh(pairs, 8);
      tape.fresh(pairs, 8);
      const chosen = gather(net, x, pairs * hidden);
      const both = masked(net, last(grouped(net, chosen, up, pairs * 2 * inner)));
      tape.drop(chosen);
      const [gated, upper] = tape.split(last(both), [pairs * inner, pairs * inner]);
      if (gated === undefined || upper === undefined) return x;
      const activated = last(activate(net, activation, last(gated)));
      const middle = multiply(net, activated, last(upper));
      const narrow = masked(net, last(grouped(net, last(middle), down, pairs * hidden)));
      const weighted = multiply(net, narrow, last(weights));
      const ordered = last(gather(net, last(weighted), pairs * hidden));
      const summed = tape.run({
        elements: tokens * hidden,
        width: ordered.width,
        inputs: [ordered],
      });
      const routed = net.cast(last(summed), x.width);
      if (shared === undefined) return routed;
      const always = shared(x);
      if (sharedGate === undefined) return add(net, last(routed), last(always));
      const share = last(fromResult(net, last(sharedGate(x))));
      return add(net, last(routed), last(multiply(net, share, last(always))));
    });
}

/** Scores of all experts for each token, and the best of them, in 32 bits. */
function route(
  net: Net,
  x: Tensor,
  gate: Parameter,
  hidden: number,
  count: number,
  active: number,
): Tensor {
  const { tape } = net;
  return tape.scope(() => {
    const logits = last(product(net, x, gate, undefined, hidden, count));
    const scores = softmax(net, last(net.cast(logits, 4)));
    const best = (x.elements / hidden) * active;
    return tape.run({ elements: best, width: 4, inputs: [last(scores)], keeps: [best * 8] });
  });
}

/** Rows in another order; the gradient is added up row by row, sorted first. */
function gather(net: Net, x: Tensor, elements: number): Tensor {
  const { tape } = net;
  return tape.run({ elements, width: x.width, inputs: [x] });
}

function masked(net: Net, x: Tensor): Tensor {
  return net.tape.run({ elements: x.elements, width: x.width, inputs: [x] });
}

/** Autocast leaves these products in the type of their weights. */
function grouped(net: Net, given: Tensor, weight: Parameter, elements: number): Tensor {
  const { tape } = net;
  const x = net.castFor(given, weight.width);
  const result = tape.run({
    elements,
    width: weight.width,
    inputs: [x, weight],
    saves: [...(weight.source ? [x] : []), ...(x.source ? [weight] : [])],
  });
  if (given.passing) tape.drop(given);
  return result;
}
