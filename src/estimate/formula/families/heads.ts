import { linear, product } from '../ops/linear.js';
import { causalLoss, crossEntropy } from '../ops/loss.js';
import type { Layer } from '../ops/norm.js';
import { fromResult, scale } from '../ops/pointwise.js';
import type { Net } from '../run/net.js';
import { last, type Tensor } from '../run/tensor.js';
import type { BuildInput } from './context.js';

/** What stands on top of a decoder; it gives the loss in training, and else what the head puts out. */
export function headOf({ net, model, workload }: BuildInput, hidden: number, table: Tensor): Layer {
  const { tape, settings } = net;
  const { head, outputs } = model;
  if (head === 'none') return (x) => x;
  const tokens = workload.batch * (workload.sequence ?? 1);
  if (head === 'lm') {
    const bias = model.tensors.some(({ name }) => /^(lm_head|embed_out)\.bias$/.test(name));
    const softens = model.family === 'gemma2';
    const own = model.tied ? undefined : linear(net, hidden, outputs, { bias, adapters: false });
    // It is made before it is tied, and given back.
    if (own === undefined) tape.recorder.scratch([outputs * hidden * net.width], 'weights');
    return (x) =>
      tape.scope(() => {
        const logits =
          own === undefined ? product(net, x, table, undefined, hidden, outputs) : own(x);
        const used = softens ? soften(net, logits) : logits;
        return settings.training ? causalLoss(net, used, tokens) : used;
      });
  }
  const classify = linear(net, hidden, outputs, {
    bias: head !== 'sequence-classification',
    adapters: false,
  });
  return (x) =>
    tape.scope(() => {
      const scores = classify(x);
      return settings.training ? crossEntropy(net, last(scores)) : scores;
    });
}

/** Large values are bent down, in three steps that each take the logits' size. */
function soften(net: Net, logits: Tensor): Tensor {
  return scale(net, last(fromResult(net, last(scale(net, last(logits))))));
}
