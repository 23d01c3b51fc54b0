import type { UnknownModel, Weights } from '../../model/types.js';
import { GiB, MiB } from '../../units/bytes.js';
import { roundUp } from '../allocator/sizes.js';
import { assembleEstimate } from '../assemble.js';
import type { Gpu } from '../cards/gpu-table.js';
import type { Estimate, Workload } from '../types.js';
import type { Wording } from '../wording.js';
import { checkQuantization, refuse } from './checks.js';
import { tracing } from './no-formula.js';

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
export function weightsOnlyEstimate(
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
