import { MiB } from '../units/bytes.js';
import { assembleEstimate } from './assemble.js';
import type { Gpu } from './cards/gpu-table.js';
import type { Estimate, Workload } from './types.js';

/** For those who know no more of a model than what kind it is, and whether it is large. */
export const modelTypes = ['transformer', 'cnn', 'rnn'] as const;
export type ModelType = (typeof modelTypes)[number];

export const modelSizes = ['small', 'medium', 'large', 'xlarge'] as const;
export type ModelSize = (typeof modelSizes)[number];

/** MB of inference at a batch of 8. */
const megabytes: Readonly<Record<ModelType, Readonly<Record<ModelSize, number>>>> = {
  transformer: { small: 2000, medium: 4000, large: 8000, xlarge: 16_000 },
  cnn: { small: 1000, medium: 2000, large: 4000, xlarge: 8000 },
  rnn: { small: 1500, medium: 3000, large: 6000, xlarge: 12_000 },
};
/** Where the table ends at `large`, the next size is twice as much, as each is before it. */
const extended: ReadonlySet<ModelType> = new Set(['cnn', 'rnn']);
const tableBatch = 8;
const trainingFactor = 2.5;
/** Rules of thumb of this kind miss by a factor of two to four, to either side. */
const lowFactor = 0.25;
const highFactor = 4;

/**
 * A rule of thumb by type and size of a model: better than nothing, and no better than that.
 *
 * @example
 * typeEstimate({ type: 'transformer', size: 'large' }, workload, findGpu('h200')).peak.reservedBytes;
 */
export function typeEstimate(
  { type, size }: { readonly type: ModelType; readonly size: ModelSize },
  workload: Workload,
  gpu: Gpu,
): Estimate {
  const scaled = (megabytes[type][size] * MiB * workload.batch) / tableBatch;
  const training = workload.mode === 'train';
  const reservedBytes = Math.round(training ? scaled * trainingFactor : scaled);
  const known = Math.round(scaled);
  return assembleEstimate({
    method: 'table',
    gpu,
    allocatedBytes: reservedBytes,
    reservedBytes,
    interval: {
      lowBytes: Math.round(reservedBytes * lowFactor),
      highBytes: Math.round(reservedBytes * highFactor),
      confidence: 0.95,
    },
    live: new Map([
      ['activations', known],
      ['optimizer', reservedBytes - known],
    ]),
    notes: [
      `A rule of thumb: ${megabytes[type][size]} MB for a ${size} ${type} at a batch of ${tableBatch}, in proportion to the batch${training ? `, and ${trainingFactor} times that in training` : ''}. Name a config.json for a figure of your model.`,
      'Weights and activations are one figure here; gradients and optimizer are another.',
      ...(size === 'xlarge' && extended.has(type)
        ? [`The table has no xlarge ${type}; twice the large one was taken.`]
        : []),
    ],
  });
}

/** What stands for the model of an estimate. */
export type ModelSource =
  /** A Hugging Face config.json, weights, or a folder of them. */
  | { readonly kind: 'path'; readonly path: string }
  /** A classifier of torchvision by its name. */
  | { readonly kind: 'torchvision'; readonly name: string }
  /** A Python file that defines `workload(**args)`; each argument is `name=value`. */
  | { readonly kind: 'script'; readonly path: string; readonly args: readonly string[] }
  /** A model of which only its number of parameters is known. */
  | { readonly kind: 'parameters'; readonly parameters: number }
  /** For those who have nothing but that. */
  | { readonly kind: 'type'; readonly type: ModelType; readonly size: ModelSize };
