import type { Net } from '../run/net.js';
import { last, type Tensor } from '../run/tape.js';
import { type AttentionShape, attend, type Mask } from './attention.js';
import { linear } from './linear.js';
import { copy, scale } from './pointwise.js';

interface MultiHeadOptions {
  readonly heads: number;
  readonly headDim: number;
  readonly dropout: number;
  readonly bias?: boolean;
  readonly keyBias?: boolean;
  readonly outputBias?: boolean;
  /** The query is scaled by an op of its own. */
  readonly scalesQuery?: boolean;
  readonly causal?: boolean;
  /** Heads are copied apart before the kernel, and the result back together. */
  readonly copiesHeads?: boolean;
}

interface Call {
  readonly batch: number;
  readonly queries: number;
  readonly keys?: number;
  /** The source of keys and values, if it is not the input. */
  readonly memory?: Tensor | undefined;
  readonly mask?: Mask | undefined;
  /** Keys and values are copied to a cache. */
  readonly remembers?: boolean;
}

export type MultiHead = (x: Tensor, call: Call) => Tensor;

/** Attention with matrices of its own for query, key, value and output. */
export function multiHead(net: Net, hidden: number, options: MultiHeadOptions): MultiHead {
  const { tape } = net;
  const { heads, headDim, bias = true } = options;
  const wide = heads * headDim;
  const makeQuery = linear(net, hidden, wide, { bias });
  const makeKey = linear(net, hidden, wide, { bias: options.keyBias ?? bias });
  const makeValue = linear(net, hidden, wide, { bias });
  const out = linear(net, wide, hidden, { bias: options.outputBias ?? bias });
  return (input, { batch, queries, keys = queries, memory, mask, remembers = false }) =>
    tape.scope(() => {
      const x = tape.own(input);
      const from = memory ?? x;
      const apart = (mixed: Tensor) =>
        options.copiesHeads === true ? copy(net, last(mixed)) : mixed;
      const plain = makeQuery(x);
      const query = apart(options.scalesQuery === true ? scale(net, last(plain)) : plain);
      const madeKey = apart(makeKey(from));
      const madeValue = apart(makeValue(from));
      const key = remember(net, remembers ? last(madeKey) : madeKey, remembers);
      const value = remember(net, remembers ? last(madeValue) : madeValue, remembers);
      const shape: AttentionShape = {
        batch,
        heads,
        kvHeads: heads,
        queries,
        keys,
        headDim,
        valueDim: headDim,
        dropout: options.dropout,
      };
      const causal = options.causal ?? false;
      const copiesResult = options.copiesHeads === true;
      const inRun = remembers || copiesResult;
      const given = { query, key, value, mask, causal, shape, inRun, copiesResult };
      const attended = attend(net, given);
      return out(last(attended));
    });
}

/** Keys or values, copied to where the next tokens will find them. */
export function remember(net: Net, x: Tensor, cache: boolean): Tensor {
  if (!cache) return x;
  const { recorder } = net.tape;
  const before = recorder.part;
  recorder.part = 'kv-cache';
  const copied = net.tape.run({ elements: x.elements, width: x.width, inputs: [x] });
  recorder.part = before;
  return net.keep(copied);
}
