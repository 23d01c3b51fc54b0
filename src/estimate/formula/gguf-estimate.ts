import type { KnownModel, ModelDescription, Weights } from '../../model/types.js';
import { MiB } from '../../units/bytes.js';
import type { Gpu } from '../cards/gpu-table.js';
import { cacheBytes } from '../serving/kv-cache.js';
import { calculated } from '../serving/parts.js';
import type { Estimate, Workload } from '../types.js';
import type { Wording } from '../wording.js';
import { addSequence, refuse } from './checks.js';
import { weightsOnlyEstimate } from './weights-only.js';

/** llama.cpp keeps keys and values in 16 bits, and computes with this many tokens at once. */
const tokensAtOnce = 512;
/** Its buffers hold a few tensors of the widest size in 32 bits. */
const buffers = 4;
const likelyMissed = 0.1;
const missedBytes = 512 * MiB;

/** A GGUF file as llama.cpp runs it: the tensors as they lie in the file, and a cache. */
export function ggufEstimate(
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
