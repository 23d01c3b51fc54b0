import type { LayerGroup, Stack } from '../../../model/model.js';
import { NoFormula } from '../checks.js';
import { activate } from '../ops/activation.js';
import { crossEntropy, lookUp } from '../ops/embedding.js';
import { plainFeedForward } from '../ops/feed-forward.js';
import { linear, product } from '../ops/linear.js';
import { multiHead } from '../ops/multi-head.js';
import { type Layer, layerNorm } from '../ops/norm.js';
import { add, dropout } from '../ops/pointwise.js';
import type { Net } from '../run/net.js';
import { last, type Tensor } from '../run/tape.js';
import { type Build, type BuildInput, stackOf } from './context.js';

/** Returns the head on top of a text encoder. */
function encoderHead(input: BuildInput, hidden: number, table: Tensor): Layer {
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

/** BERT and its kin: norms after each part, all tokens see all others. */
export const bert: Build = (input) => {
  const { net, model, workload } = input;
  const { tape } = net;
  const stack = stackOf(model, 'text');
  const { hidden, dropout: rates } = stack;
  const tables = model.tensors.filter(({ name }) => /embeddings\.\w+_embeddings\./.test(name));
  const [words, ...others] = tables.map(({ shape }) => net.parameter(shape));
  if (words === undefined) throw new Error('the model has no embedding');
  const norm = layerNorm(net, hidden);
  const sequence = workload.sequence ?? 1;
  const { batch } = workload;
  // DistilBERT has no dropout there.
  const dropsAttention = model.family !== 'distilbert';
  const layers = stack.layers.flatMap((group) =>
    Array.from({ length: group.count }, () =>
      block(net, group, rates, batch, sequence, dropsAttention),
    ),
  );
  const head = encoderHead(input, hidden, words);
  const tokens = batch * sequence;
  // RoBERTa counts the positions of each sample; the others share them.
  const positionRows = model.family === 'roberta' ? tokens : sequence;
  return {
    batch: () => [tape.fresh(tokens, 8)],
    forward: ([ids]) =>
      tape.scope(() => {
        let x = lookUp(net, words, tokens, ids);
        for (const table of others.toReversed()) {
          const isPosition = table === others[0];
          const rows = isPosition ? positionRows : tokens;
          x = add(net, last(x), last(lookUp(net, table, rows)));
        }
        x = dropout(net, last(norm(last(x))), rates.embedding);
        x.passing = false;
        for (const layer of layers) {
          const before = x;
          x = net.block(before, layer);
          tape.drop(before);
        }
        return head(x);
      }),
  };
};

function block(
  net: Net,
  { hidden, attention, feedForward }: LayerGroup,
  rates: Stack['dropout'],
  batch: number,
  sequence: number,
  dropsAttention: boolean,
): Layer {
  const { tape } = net;
  const attend = multiHead(net, hidden, {
    heads: attention?.heads ?? 1,
    headDim: attention?.headDim ?? hidden,
    dropout: rates.attention,
  });
  const first = layerNorm(net, hidden);
  const feed = plainFeedForward(net, hidden, feedForward, { dropout: rates.hidden });
  const second = layerNorm(net, hidden);
  return (x) =>
    tape.scope(() => {
      const plain = attend(x, { batch, queries: sequence });
      const attended = dropsAttention ? dropout(net, last(plain), rates.hidden) : plain;
      const middle = first(last(add(net, attended, x)));
      tape.drop(attended);
      return second(last(add(net, feed(middle), middle)));
    });
}
