import type { LayerGroup } from '../../../model/model.js';
import type { Mask } from '../ops/attention.js';
import { causalLoss, crossEntropy, lookUp } from '../ops/embedding.js';
import { linear, product } from '../ops/linear.js';
import type { Layer } from '../ops/norm.js';
import { add, dropout, fromResult, scale } from '../ops/pointwise.js';
import type { Rotation } from '../ops/rotary.js';
import type { Net, Parameter } from '../run/net.js';
import { last, type Tensor } from '../run/tape.js';
import { type BuildInput, type Built, stackOf } from './context.js';

/** Values that the layers of a decoder share during a step. */
export interface DecoderState {
  readonly batch: number;
  readonly sequence: number;
  rotation?: Rotation;
  masks: ReadonlyMap<LayerGroup, Mask | undefined>;
  /** Keys and values are kept, as for the tokens that would come next. */
  readonly cache: boolean;
  /** Tensors that every layer reads beside its input. */
  needs: Tensor[];
}

interface DecoderParts {
  readonly layer: (group: LayerGroup, state: DecoderState) => Layer;
  readonly norm?: ((net: Net, size: number) => Layer) | undefined;
  /** A norm right after the embedding. */
  readonly firstNorm?: ((net: Net, size: number) => Layer) | undefined;
  readonly scalesEmbedding?: boolean;
  /** Rows of the table of positions, where they are learned. */
  readonly positions?: number;
  /** Each sample looks up its own positions; else all share them. */
  readonly positionsBySample?: boolean;
  /** Dimensions of the embedding, where they are not those of the layers. */
  readonly embedded?: number | undefined;
  readonly prepare?: (state: DecoderState, hidden: Tensor) => void;
}

/** Embedding, layers, norm, head: what all decoders have in common. */
export function decoder(input: BuildInput, parts: DecoderParts): Built {
  const { net, model, workload } = input;
  const { tape } = net;
  const stack = stackOf(model, 'text');
  const { hidden, dropout: rates } = stack;
  const vocabulary = stack.input.kind === 'tokens' ? stack.input.vocabulary : 0;
  // OPT's smaller models embed into fewer dimensions than their layers have.
  const embedded = parts.embedded ?? hidden;
  const table = net.parameter([vocabulary, embedded]);
  const widen = embedded === hidden ? undefined : linear(net, embedded, hidden, { bias: false });
  const narrow = embedded === hidden ? undefined : linear(net, hidden, embedded, { bias: false });
  const positions =
    parts.positions === undefined ? undefined : net.parameter([parts.positions, hidden]);
  const firstNorm = parts.firstNorm?.(net, hidden);
  const sequence = workload.sequence ?? 1;
  const state: DecoderState = {
    batch: workload.batch,
    sequence,
    masks: new Map(),
    cache: !net.settings.training && model.kind === 'decoder',
    needs: [],
  };
  const layers = stack.layers.flatMap((group) =>
    Array.from({ length: group.count }, () => parts.layer(group, state)),
  );
  const finalNorm = parts.norm?.(net, hidden);
  const head = headOf(input, embedded, table);
  const tokens = workload.batch * sequence;
  const positionRows = parts.positionsBySample === true ? tokens : sequence;
  return {
    batch: () => [tape.fresh(tokens, 8)],
    forward: ([ids]) =>
      tape.scope(() => {
        let x = embed(net, table, positions, tokens, positionRows, ids, widen);
        // The embedding keeps its name to the end; what follows from it does not.
        const words = positions === undefined ? x : undefined;
        const goOn = (next: Tensor) => {
          if (next !== x && x !== words) tape.drop(x);
          x = next;
        };
        if (parts.scalesEmbedding === true) goOn(scale(net, x));
        goOn(dropout(net, x, rates.embedding));
        if (firstNorm !== undefined) goOn(firstNorm(x));
        state.masks = masksFor(net, stack.layers, sequence);
        parts.prepare?.(state, x);
        const { rotation, masks } = state;
        state.needs = [
          ...(rotation ? [rotation.cos, rotation.sin] : []),
          ...new Set([...masks.values()].flatMap((mask) => (mask ? [mask.tensor] : []))),
        ];
        for (const layer of layers) goOn(net.block(x, layer, state.needs));
        if (finalNorm !== undefined) goOn(finalNorm(x));
        return head(narrow === undefined ? x : narrow(last(x)));
      }),
  };
}

function embed(
  net: Net,
  table: Parameter,
  positions: Parameter | undefined,
  tokens: number,
  positionRows: number,
  ids: Tensor | undefined,
  widen: Layer | undefined,
): Tensor {
  const found = lookUp(net, table, tokens, ids);
  const words = widen === undefined ? found : widen(last(found));
  if (positions === undefined) return words;
  return add(net, words, lookUp(net, positions, positionRows));
}

/** Only where a window is shorter than the sequence; else the kernel knows what is causal. */
function masksFor(
  net: Net,
  groups: readonly LayerGroup[],
  sequence: number,
): ReadonlyMap<LayerGroup, Mask | undefined> {
  const slides = groups.some(({ attention }) => isMasked(attention, sequence));
  if (!slides) return new Map();
  const { tape } = net;
  const pairs = sequence * sequence;
  for (const _ of [1, 2]) tape.drop(tape.fresh(pairs, 1));
  const tensor = tape.fresh(pairs, 1);
  return new Map(
    groups.map((group) => [
      group,
      isMasked(group.attention, sequence) ? { tensor, boolean: true } : undefined,
    ]),
  );
}

function isMasked(attention: LayerGroup['attention'], sequence: number): boolean {
  return attention?.reach === 'sliding' && sequence > (attention.window ?? sequence);
}

/** Builds the head of a decoder; returns the loss in training, else the head's output. */
function headOf({ net, model, workload }: BuildInput, hidden: number, table: Tensor): Layer {
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
