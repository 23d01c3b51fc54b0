import { NoFormula } from '../no-formula.js';
import { activate } from '../ops/activation.js';
import { linear, product } from '../ops/linear.js';
import { crossEntropy } from '../ops/loss.js';
import { type Layer, layerNorm } from '../ops/norm.js';
import { last, type Tensor } from '../run/tensor.js';
import type { BuildInput } from './context.js';

/** What stands on top of an encoder of text. */
export function encoderHead(input: BuildInput, hidden: number, table: Tensor): Layer {
  const { net, model, workload } = input;
  const { tape, settings } = net;
  const { head, outputs } = model;
  if (head === 'none') return (x) => x;
  if (head === 'masked-lm' || head === 'lm') return languageHead(input, hidden, table);
  const finish = (scores: Tensor) => (settings.training ? crossEntropy(net, last(scores)) : scores);
  if (head === 'token-classification' || head === 'question-answering') {
    const classify = linear(net, hidden, outputs, { adapters: false });
    return (x) => tape.scope(() => finish(classify(x)));
  }
  if (head !== 'sequence-classification') {
    throw new NoFormula(`the head "${head}" of ${model.className}`);
  }
  const dense = linear(net, hidden, hidden, { adapters: false });
  const classify = linear(net, hidden, outputs, { adapters: false });
  return (x) =>
    tape.scope(() => {
      const [first] = tape.split(x, [workload.batch * hidden]);
      const pooled = activate(net, 'tanh', last(dense(last(first ?? x))));
      return finish(classify(last(pooled)));
    });
}

/** A layer and a norm before the words; their matrix is usually the embedding's. */
function languageHead({ net, model }: BuildInput, hidden: number, table: Tensor): Layer {
  const { tape, settings } = net;
  const { outputs, tied } = model;
  const dense = linear(net, hidden, hidden, { adapters: false });
  const norm = layerNorm(net, hidden);
  const bias = net.parameter([outputs]);
  const own = tied ? table : net.parameter([outputs, hidden]);
  // It is made before it is tied, and given back.
  if (tied) tape.recorder.scratch([outputs * hidden * net.width], 'weights');
  return (x) =>
    tape.scope(() => {
      const inner = norm(last(activate(net, 'gelu', last(dense(x)))));
      const logits = product(net, last(inner), own, bias, hidden, outputs);
      return settings.training ? crossEntropy(net, logits) : logits;
    });
}
