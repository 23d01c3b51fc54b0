import { describeConfig } from '../model/config/describe-config.js';
import { usualDecoder } from '../model/names/usual-decoder.js';
import type { Model } from '../model/types.js';
import { formatCount } from '../units/counts.js';
import type { Gpu } from './cards/gpu-table.js';
import { formulaAnswer } from './formula/formula-estimate.js';
import type { Estimate, Part, Workload } from './types.js';

/** What follows from the number of parameters; names round it, by a tenth at most. */
const statesOff = 0.1;
/**
 * The rest depends on width, depth, vocabulary and heads. Of the decoders of the catalogue, 95 of 100
 * lie between these shares of what the usual one takes (`parameter-rule.test.ts`).
 */
const lowShare = 0.35;
const highShare = 2.8;
const states: ReadonlySet<Part> = new Set(['weights', 'gradients', 'optimizer']);

/** The model that stands for all of that many parameters. */
export function usualModel(parameters: number): Model {
  const place = `a model of ${formatCount(parameters)} parameters`;
  return { path: place, description: describeConfig(usualDecoder(parameters), place) };
}

/**
 * What a model needs of which only the number of parameters is known: that of a usual decoder, with a
 * wide interval.
 *
 * @example
 * await parameterRule(22e9, workload, findGpu('h100'), machine);
 */
export async function parameterRule(
  parameters: number,
  workload: Workload,
  gpu: Gpu,
  machine: Parameters<typeof formulaAnswer>[3],
): Promise<Estimate> {
  const found = await formulaAnswer(usualModel(parameters), workload, gpu, machine);
  const sum = (wanted: (part: Part) => boolean) =>
    found.breakdown.reduce((total, { part, bytes }) => total + (wanted(part) ? bytes : 0), 0);
  const known = sum((part) => states.has(part));
  const rest = sum((part) => !states.has(part) && part !== 'context');
  const { reservedBytes } = found.peak;
  return {
    ...found,
    interval: {
      lowBytes: Math.round(known * (1 - statesOff) + rest * lowShare),
      highBytes: Math.max(reservedBytes, Math.round(known * (1 + statesOff) + rest * highShare)),
      confidence: found.interval.confidence,
    },
    notes: [
      `A rule: a usual decoder of ${formatCount(parameters)} parameters was taken, as nothing else of the model is known; the interval is wide. Name its config.json for a figure of your model.`,
      ...found.notes.filter((note) => !note.startsWith('Estimated from the shapes')),
    ],
  };
}
