import { Failure } from '../../failure.js';
import type { KnownModel, ModelDescription, Weights } from '../../model/types.js';
import { isKnown } from '../../units/known.js';
import type { Gpu } from '../cards/gpu-table.js';
import type { Estimate, QuantizationPreset } from '../types.js';
import { type CacheType, cacheBytes, widestToken } from './kv-cache.js';
import { calculated, type WeightType, weightBytes, widthOf } from './parts.js';

export const engines = ['vllm', 'llama.cpp', 'transformers'] as const;
export type ServeEngine = (typeof engines)[number];

export interface Serving {
  readonly engine: ServeEngine;
  /** Tokens of the longest request, its answer included. */
  readonly maxModelLen: number;
  /** The share of the card that vLLM takes. */
  readonly utilization: number;
  readonly precision: WeightType;
  readonly cacheType: CacheType;
  readonly quantization?: QuantizationPreset | undefined;
}

/** What a server of a model has room for. All of it is calculated. */
export interface ServeRoom {
  readonly engine: ServeEngine;
  readonly maxModelLen: number;
  readonly weightsBytes: number;
  /** What it computes with beside the cache. */
  readonly workingBytes: number;
  readonly kvPrecision: CacheType;
  /** Of one more token, where no window is full. */
  readonly kvBytesPerToken: number;
  readonly kvBytesPerRequest: number;
  /** What is left for the cache; 0 where not even the weights fit. */
  readonly kvCacheBytes: number;
  /** Tokens that the cache holds, as many short requests. */
  readonly tokens: number;
  /** Requests of full length at the same time. */
  readonly requests: number;
}

/** Tokens of one step, and sequences whose next token is chosen at once, as the engines have them unset. */
const stepsOf: Readonly<Record<ServeEngine, { readonly tokens: number; readonly rows: number }>> = {
  vllm: { tokens: 8192, rows: 256 },
  'llama.cpp': { tokens: 512, rows: 512 },
  transformers: { tokens: 0, rows: 0 },
};
/** vLLM shares its cache out in blocks of so many tokens. */
const blockTokens = 16;
/** Logits in 32 bits, and a copy while one is chosen. */
const scoreBytes = 8;

/**
 * How many tokens and requests a server of a model has room for on a card.
 *
 * @example
 * serveEstimate({ description, weights }, serving, findGpu('h100')).serve.requests;
 */
export function serveEstimate(
  model: KnownModel,
  weights: Weights | undefined,
  serving: Serving,
  gpu: Gpu,
): Estimate & { readonly serve: ServeRoom } {
  const { engine, maxModelLen, precision, cacheType, quantization, utilization } = serving;
  const step = stepsOf[engine];
  const cache = {
    type: cacheType,
    latent: engine !== 'transformers',
    beyondWindow: engine === 'llama.cpp' ? step.tokens : 0,
  };
  const weightsBytes =
    weights !== undefined && quantization === undefined
      ? weights.bytes
      : weightBytes(model, precision, quantization);
  const each = widestToken(model) * widthOf(precision);
  const workingBytes =
    gpu.workspaceBytes + step.tokens * each + step.rows * model.outputs * scoreBytes;
  // transformers reads a whole prompt at once, of each request.
  const besideCache =
    engine === 'transformers' ? maxModelLen * each + model.outputs * scoreBytes : 0;
  const kvBytesPerToken = cacheBytes(model, 1, cache);
  const kvBytesPerRequest = cacheBytes(model, rounded(maxModelLen, engine), cache);
  const share = engine === 'vllm' ? utilization : 1;
  const budget = Math.floor(gpu.capacityBytes * share) - gpu.context.bytes;
  const room = Math.max(0, budget - weightsBytes - workingBytes);
  const requests = Math.floor(room / Math.max(1, kvBytesPerRequest + besideCache));
  const kvCacheBytes = engine === 'vllm' ? room : requests * kvBytesPerRequest;
  // vLLM takes all of its share at once; the others what a request needs.
  const shown = engine === 'vllm' ? Math.max(room, kvBytesPerRequest) : kvBytesPerRequest;
  const found = calculated(
    [
      { part: 'weights', bytes: weightsBytes },
      { part: 'activations', bytes: workingBytes - gpu.workspaceBytes + besideCache },
      { part: 'workspace', bytes: gpu.workspaceBytes },
      { part: 'kv-cache', bytes: shown },
    ],
    gpu,
    [assumed[engine], ...model.notes],
  );
  const least = weightsBytes + workingBytes + besideCache + kvBytesPerRequest + gpu.context.bytes;
  return {
    ...found,
    peak: { ...found.peak, leastCapacityBytes: Math.ceil(least / share) },
    serve: {
      engine,
      maxModelLen,
      weightsBytes,
      workingBytes: workingBytes + requests * besideCache,
      kvPrecision: cacheType,
      kvBytesPerToken,
      kvBytesPerRequest,
      kvCacheBytes,
      tokens: tokensIn(kvCacheBytes, kvBytesPerToken, engine),
      requests,
    },
  };
}

function rounded(tokens: number, engine: ServeEngine): number {
  return engine === 'vllm' ? Math.ceil(tokens / blockTokens) * blockTokens : tokens;
}

function tokensIn(bytes: number, each: number, engine: ServeEngine): number {
  const tokens = Math.floor(bytes / Math.max(1, each));
  return engine === 'vllm' ? tokens - (tokens % blockTokens) : tokens;
}

const measuredNothing = 'Calculated from the shapes of the model; nothing of it was measured.';
const assumed: Readonly<Record<ServeEngine, string>> = {
  vllm: `${measuredNothing} As vLLM has it unset: 8,192 tokens in a step, 256 sequences, blocks of 16 tokens; CUDA graphs are not counted.`,
  'llama.cpp': `${measuredNothing} As llama.cpp has it unset: all layers on the GPU, 512 tokens in a step, the whole cache taken at the start.`,
  transformers: `${measuredNothing} As generate() of transformers has it: each request reads its whole prompt at once, and caches all heads.`,
};

/** Where the model does not say how long a request may be. */
const usualLength = 4096;

/** A model that writes text; of others neither mode tells anything. */
export function writerOf(description: ModelDescription): KnownModel {
  if (description.family === 'unknown') {
    throw notWriting(`The family "${description.modelType}" is not known here.`);
  }
  const { kind } = description;
  if (kind === 'decoder' || kind === 'encoder-decoder') return description;
  throw notWriting(`${description.className} does not write text.`);
}

/** Tokens of the longest request: the model's own, or a usual length where it names none. */
export function longestRequest({ stacks }: KnownModel): number {
  const [input] = stacks.map((stack) => stack.input);
  if (input === undefined || input.kind === 'image') return usualLength;
  return isKnown(input.maxPositions) ? input.maxPositions : usualLength;
}

function notWriting(fact: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'no-formula',
    fact,
    next: 'Name a language model of a known family, or trace a program of yours: plimsoll estimate -- python generate.py',
  });
}
