import type { Net } from '../run/net.js';
import { last, type Tensor } from '../run/tape.js';
import { batchProduct } from './linear.js';
import { copy, dropout, scale, shift, softmax } from './pointwise.js';

/** Attention over heads, as it reaches PyTorch's `scaled_dot_product_attention`. */
export interface AttentionShape {
  readonly batch: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly queries: number;
  readonly keys: number;
  readonly headDim: number;
  readonly valueDim: number;
  readonly dropout: number;
}

export interface Mask {
  readonly tensor: Tensor;
  /** True or false for each pair; made into numbers for every call. */
  readonly boolean: boolean;
  /** Its last dimension does not lie in one run, so that only plain products take it. */
  readonly strided?: boolean;
}

export interface AttentionInput {
  readonly query: Tensor;
  readonly key: Tensor;
  readonly value: Tensor;
  readonly mask?: Mask | undefined;
  readonly shape: AttentionShape;
  readonly causal: boolean;
  /** Keys and values lie head by head, as a cache keeps them. */
  readonly inRun?: boolean;
  /** The query lies head by head, and so does the result, which is then copied token by token. */
  readonly copiesResult?: boolean;
  /** Keys and values are repeated by the plain product itself, not before it. */
  readonly repeatsLate?: boolean;
}

/** Head sizes of the fused kernels: this step, up to this limit. */
const headStep = 8;
const largestHead = 256;
const cudnnScratch = 256;
/** Statistics of the memory-efficient kernel come for whole groups of rows. */
const efficientRows = 32;

/**
 * transformers' way to attention: keys and values are repeated for their queries unless the kernel
 * does it; the result lies token by token.
 */
export function attend(net: Net, input: AttentionInput): Tensor {
  const { tape } = net;
  const { shape, mask } = input;
  if (net.settings.writtenScores !== undefined) return writtenAttention(net, input);
  return tape.scope(() => {
    const query = tape.own(input.query);
    let key = tape.own(input.key);
    let value = tape.own(input.value);
    let kvHeads = shape.kvHeads;
    const groups = shape.heads / kvHeads;
    const inKernel = mask === undefined && shape.headDim === shape.valueDim && shape.headDim <= 256;
    if (groups > 1 && !inKernel && input.repeatsLate !== true) {
      key = repeatedHeads(net, key, groups);
      value = repeatedHeads(net, value, groups);
      kvHeads = shape.heads;
    }
    const given = { ...input, query, key, value, shape: { ...shape, kvHeads } };
    const result = scaledDotProduct(net, given);
    return input.copiesResult === true ? copy(net, last(result)) : result;
  });
}

function scaledDotProduct(net: Net, input: AttentionInput): Tensor {
  const { tape } = net;
  const { shape } = input;
  return tape.scope(() => {
    const width = net.settings.autocast ?? input.query.width;
    const [query, key, value] = [input.query, input.key, input.value].map((one) =>
      net.castFor(one, width),
    );
    if (query === undefined || key === undefined || value === undefined) return input.query;
    const mask = additive(net, input.mask, width);
    const kernel =
      input.mask?.strided === true || (input.repeatsLate === true && shape.heads > shape.kvHeads)
        ? 'math'
        : kernelFor(net, shape, mask, width);
    if (kernel === 'math') {
      const causal = input.causal && mask === undefined;
      const inRun = input.inRun === true;
      const repeatsLate = input.repeatsLate === true;
      const given = { query, key, value, mask, shape, causal, inRun, repeatsLate };
      return copy(net, last(mathAttention(net, given)));
    }
    const inputs = [query, key, value, ...(mask?.source ? [mask] : [])];
    const rows = shape.batch * shape.heads * shape.queries;
    const statistics =
      kernel === 'fused'
        ? rows * 4
        : shape.batch * shape.heads * Math.ceil(shape.queries / efficientRows) * efficientRows * 4;
    return tape.run({
      elements: rows * shape.valueDim,
      width,
      inputs,
      saves: [query, key, value, ...(mask ? [mask] : [])],
      savesResult: true,
      keeps: tape.learns && inputs.some(({ source }) => source) ? [statistics] : [],
      scratch: kernel === 'fused' ? [cudnnScratch] : [],
      backward: () => {
        const gradients = inputs.map((one) => [one, tape.grad(one)] as const);
        if (kernel === 'fused') tape.recorder.scratch([fusedBackward(shape, width)]);
        else efficientBackward(net, shape, width);
        for (const [one, gradient] of gradients) tape.give(one, gradient);
      },
    });
  });
}

function kernelFor(net: Net, shape: AttentionShape, mask: Tensor | undefined, width: number) {
  const { headDim, valueDim, queries } = shape;
  const grouped = shape.heads !== shape.kvHeads;
  if (width === 2 && net.settings.fusedAttention) {
    const fits = [headDim, valueDim].every((dim) => dim % headStep === 0 && dim <= largestHead);
    if (fits && mask?.source === undefined && queries > 1) return 'fused';
    if (mask === undefined && headDim <= largestHead && headDim === valueDim) return 'fused';
  }
  return grouped ? 'math' : 'efficient';
}

function additive(net: Net, mask: Mask | undefined, width: number): Tensor | undefined {
  if (mask === undefined) return undefined;
  if (mask.boolean) return net.tape.fresh(mask.tensor.elements, width);
  return net.castFor(mask.tensor, width);
}

/** Sums of the query's gradient in 32 bits; and whole gradients of keys that queries share. */
function fusedBackward(shape: AttentionShape, width: number): number {
  const { batch, heads, kvHeads, queries, keys, headDim, valueDim } = shape;
  const sums = batch * heads * queries * (headDim + 1) * 4 + cudnnScratch;
  return kvHeads === heads ? sums : sums + batch * heads * keys * (headDim + valueDim) * width;
}

function efficientBackward(net: Net, shape: AttentionShape, width: number): void {
  const { recorder } = net.tape;
  const { batch, heads, queries, headDim, valueDim } = shape;
  const statistics = batch * heads * queries * 4;
  if (width === 4) recorder.scratch([batch * heads * queries * valueDim * 4, statistics]);
  const tileRows = width === 2 && headDim > 64 && headDim <= 128 ? 128 : 64;
  const tileColumns = headDim <= 64 ? 64 : 128;
  const tiles = Math.ceil(queries / tileRows) * Math.ceil(headDim / tileColumns);
  const sums = batch * heads * tiles * (tileRows * tileColumns * 4 + 16);
  recorder.scratch([statistics, sums]);
}

interface WrittenInput {
  readonly query: Tensor;
  readonly key: Tensor;
  readonly value: Tensor;
  readonly shape: AttentionShape;
}

/** Attention without a kernel of its own: a score for each pair of tokens is kept, after a softmax. */
function writtenAttention(net: Net, input: WrittenInput): Tensor {
  const { tape, settings } = net;
  const { batch, heads, kvHeads, queries, keys, valueDim, dropout: rate } = input.shape;
  return tape.scope(() => {
    const width = settings.autocast ?? input.query.width;
    const inside = settings.writtenScores === '32-bit' ? 4 : width;
    const [query, key, value] = [input.query, input.key, input.value].map(tape.own.bind(tape));
    if (query === undefined || key === undefined || value === undefined) return input.query;
    const [allKeys, allValues] = [key, value].map((x) => repeatedHeads(net, x, heads / kvHeads));
    if (allKeys === undefined || allValues === undefined) return query;
    const scores = batchProduct(
      net,
      net.castFor(query, inside),
      net.castFor(allKeys, inside),
      batch * heads * queries * keys,
      { copies: [true, true] },
    );
    const masked = shift(net, last(scale(net, last(scores))));
    const softened = softmax(net, last(masked), settings.autocast === undefined ? inside : 4);
    const weights = net.castFor(dropout(net, softened, rate), width);
    const result = batchProduct(
      net,
      weights,
      net.castFor(allValues, width),
      batch * heads * queries * valueDim,
      { copies: [false, true] },
    );
    return copy(net, last(result));
  });
}

/** Each head of keys or values, as often as queries share it. */
function repeatedHeads(net: Net, x: Tensor, groups: number): Tensor {
  if (groups === 1) return x;
  return net.tape.run({ elements: x.elements * groups, width: x.width, inputs: [x] });
}

interface MathInput {
  readonly query: Tensor;
  readonly key: Tensor;
  readonly value: Tensor;
  readonly mask: Tensor | undefined;
  readonly shape: AttentionShape;
  readonly causal: boolean;
  readonly inRun: boolean;
  readonly repeatsLate: boolean;
}

/** Attention as plain products and a softmax over all pairs of tokens, in 32 bits. */
function mathAttention(net: Net, input: MathInput): Tensor {
  const { tape } = net;
  const { shape, mask } = input;
  const { batch, heads, kvHeads, queries, keys, valueDim } = shape;
  const groups = heads / kvHeads;
  return tape.scope(() => {
    const before = input.query.width;
    const [query, key, value] = [input.query, input.key, input.value].map((x) => net.cast(x, 4));
    if (query === undefined || key === undefined || value === undefined) return input.query;
    const scaled = scale(net, query);
    if (input.causal) tape.fresh(queries * keys, 4);
    const repeats = groups > 1 && !input.repeatsLate;
    const repeated = repeats ? expand(net, key, groups) : key;
    const values = groups > 1 ? expand(net, value, groups) : value;
    const elements = batch * heads * queries * keys;
    const scaledKey = last(scale(net, repeated));
    const fullKey = groups > 1 && !repeats ? last(expand(net, scaledKey, groups)) : scaledKey;
    const scores = batchProduct(net, scaled, fullKey, elements, {
      copies: [true, groups === 1 && !input.inRun],
    });
    const weights = safeSoftmax(net, last(scores), keys, mask);
    const used = dropout(net, weights, shape.dropout);
    if (before !== 4) net.cast(tape.detached(used), before);
    const result = batchProduct(net, used, values, batch * heads * queries * valueDim, {
      copies: [false, groups === 1 && !input.inRun],
    });
    return net.cast(result, before);
  });
}

function expand(net: Net, x: Tensor, groups: number): Tensor {
  return net.tape.run({ elements: x.elements * groups, width: x.width, inputs: [x] });
}

/** The mask is added in place; a second look finds rows that were masked whole. */
function safeSoftmax(net: Net, scores: Tensor, keys: number, mask: Tensor | undefined): Tensor {
  const { tape } = net;
  const { elements, width } = scores;
  const inputs = mask?.source ? [scores, mask] : [scores];
  return tape.run({
    elements,
    width,
    inputs,
    savesResult: true,
    scratch: [elements, elements / keys, width],
    backward: () => {
      const own = tape.grad(scores);
      tape.recorder.scratch([elements * width]);
      if (mask?.source) tape.give(mask, tape.grad(mask));
      tape.give(scores, own);
    },
  });
}
