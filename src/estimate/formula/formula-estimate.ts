import type {
  KnownModel,
  Model,
  ModelDescription,
  UnknownModel,
  Weights,
} from '../../model/types.js';
import { GiB, MiB } from '../../units/bytes.js';
import { roundUp } from '../allocator/sizes.js';
import { assembleEstimate } from '../assemble.js';
import type { Gpu } from '../cards/gpu-table.js';
import { cacheBytes } from '../serving/kv-cache.js';
import { calculated } from '../serving/parts.js';
import type { Estimate, Workload } from '../types.js';
import { callWording, type Wording } from '../wording.js';
import {
  addSequence,
  checkQuantization,
  checkWorkload,
  orTraceInstead,
  refuse,
  tracing,
} from './checks.js';
import { knownEstimate } from './known-estimate.js';

/**
 * What a workload needs, from the shapes of its model alone: no Python, no GPU. Every op of a known
 * family is gone through as PyTorch would run it, and what it asks for is fed to the simulated
 * allocator. Throws a `Failure` with what is missing where nothing honest can be said.
 *
 * @example
 * const model = await readModel('config.json');
 * const { peak, interval } = formulaEstimate(model, workload, findGpu('h200'));
 * peak.reservedBytes;
 */
export function formulaEstimate(
  model: Model,
  workload: Workload,
  gpu: Gpu,
  wording: Wording = callWording,
): Estimate {
  const found = withoutOps(model, workload, gpu, wording);
  if ('method' in found) return found;
  return orTraceInstead(() => knownEstimate(found, workload, gpu), wording);
}

/** What is answered at once, or the model whose ops must be gone through. */
export function withoutOps(
  { description, weights }: Model,
  workload: Workload,
  gpu: Gpu,
  wording: Wording,
): Estimate | KnownModel {
  if (weights?.format === 'gguf') {
    return ggufEstimate(description, weights, workload, gpu, wording);
  }
  if (description.family === 'unknown') {
    return weightsOnlyEstimate(description, weights, workload, gpu, wording);
  }
  checkWorkload(description, workload, wording);
  return description;
}

/** llama.cpp keeps keys and values in 16 bits, and computes with this many tokens at once. */
const tokensAtOnce = 512;
/** Its buffers hold a few tensors of the widest size in 32 bits. */
const buffers = 4;
const likelyMissed = 0.1;
const missedBytes = 512 * MiB;

/** A GGUF file as llama.cpp runs it: the tensors as they lie in the file, and a cache. */
function ggufEstimate(
  model: ModelDescription,
  weights: Weights,
  workload: Workload,
  gpu: Gpu,
  wording: Wording,
): Estimate {
  if (workload.mode === 'train') {
    throw refuse(
      'no-formula',
      'A GGUF file is for inference, not for training.',
      `Name the config.json of the model it was made from, or use ${wording.example('mode', 'infer')}.`,
    );
  }
  if (model.family === 'unknown') {
    return weightsOnlyEstimate(model, weights, workload, gpu, wording);
  }
  if (workload.sequence === undefined) {
    throw refuse(
      'no-sequence',
      'The cache of keys and values grows with the length of the context, which is not given.',
      addSequence('the tokens of the context', 8192, wording),
    );
  }
  const kept = { type: 'fp16', latent: true, beyondWindow: tokensAtOnce } as const;
  const cache = workload.batch * cacheBytes(model, workload.sequence, kept);
  const compute = computeBytes(model, workload.sequence);
  const found = calculated(
    [
      { part: 'weights', bytes: weights.bytes },
      { part: 'activations', bytes: compute },
      { part: 'workspace', bytes: gpu.workspaceBytes },
      { part: 'kv-cache', bytes: cache },
    ],
    gpu,
    [
      'As llama.cpp runs it, all layers on the GPU: the tensors as they lie in the file, a cache of 16 bits, and buffers of a few tensors. It was not measured, so the interval is wide.',
      ...model.notes,
    ],
  );
  const { reservedBytes } = found.peak;
  const highBytes = Math.round(reservedBytes * (1 + likelyMissed)) + missedBytes + compute;
  return { ...found, interval: { lowBytes: weights.bytes, highBytes, confidence: 0.95 } };
}

function computeBytes(model: KnownModel, sequence: number): number {
  const widest = model.stacks.flatMap(({ layers }) =>
    layers.map(({ feedForward, hidden }) => Math.max(feedForward.inner, hidden)),
  );
  const tokens = Math.min(sequence, tokensAtOnce);
  return tokens * 4 * (buffers * Math.max(0, ...widest) + model.outputs);
}

/** Of weights of these types, copies in other precisions are made; the others stay as they are. */
const plainTypes = new Set(['F32', 'F16', 'BF16', 'F64']);
/** In the recorded inferences of transformers, 0.1 to 0.5 of the weights came on top of them. */
const likelyShare = 0.2;
const highShare = 1.5;
/** Small models of images took up to 19 times their weights: so much, and so much a sample, at most. */
const highBytes = 2 * GiB;
const highBytesOfSample = 64 * MiB;
const segment = 2 * MiB;

/**
 * What can be said of a model of unknown family: its weights, and no more. Activations may be
 * anything, so training is refused and inference has a wide interval.
 */
function weightsOnlyEstimate(
  model: UnknownModel,
  weights: Weights | undefined,
  workload: Workload,
  gpu: Gpu,
  wording: Wording,
): Estimate {
  if (weights === undefined) {
    throw refuse(
      'no-formula',
      `There is no formula for the family "${model.modelType}", and no weights whose size is known.`,
      `Name the weights, or trace the model: ${tracing(wording)}`,
    );
  }
  if (workload.mode === 'train') {
    throw refuse(
      'no-formula',
      `There is no formula for the family "${model.modelType}", so what its training keeps for the backward pass is unknown.`,
      `Trace the model instead: ${tracing(wording)}`,
    );
  }
  checkQuantization(workload, wording);
  const weightBytes = bytesInPrecision(weights, workload);
  const workspace = gpu.workspaceBytes;
  const activations = Math.round(weightBytes * likelyShare);
  const reservedBytes = roundUp(weightBytes + workspace + activations, segment);
  const allocatedBytes = weightBytes + workspace + activations;
  return assembleEstimate({
    method: 'formula',
    gpu,
    allocatedBytes,
    reservedBytes,
    interval: {
      lowBytes: weightBytes,
      highBytes:
        Math.round(weightBytes * (1 + highShare)) +
        workspace +
        highBytes +
        workload.batch * highBytesOfSample,
      confidence: 0.95,
    },
    live: new Map([
      ['weights', weightBytes],
      ['activations', activations],
      ['workspace', workspace],
    ]),
    notes: [
      'Only the weights are known, from their headers. What the model computes with is unknown: a fifth of the weights is assumed, and the interval is wide.',
      ...model.notes,
    ],
  });
}

/** Weights in the precision asked for; types that are packed stay as they lie in the files. */
function bytesInPrecision({ byType }: Weights, { precision, quantization }: Workload): number {
  const wide = precision === 'fp32' || precision.startsWith('amp-');
  const width = wide && quantization === undefined ? 4 : 2;
  return byType.reduce(
    (sum, { type, parameters, bytes }) => sum + (plainTypes.has(type) ? parameters * width : bytes),
    0,
  );
}
