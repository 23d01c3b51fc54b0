import { Failure } from '../failure.js';
import type { ModelDescription, StackInput } from '../model/types.js';
import { checkQuantization, checkWorkload } from './formula/checks.js';
import type { Workload } from './types.js';
import type { Wording } from './wording.js';

/**
 * Throws where the workload leaves out what the model needs, or cannot be run at all. Of a model of
 * unknown family the input is unknown, so a trace wants to be told either.
 */
export function checkInput(
  description: ModelDescription,
  workload: Workload,
  willTrace: boolean,
  wording: Wording,
): void {
  if (description.family !== 'unknown') {
    checkWorkload(description, workload, wording);
    return;
  }
  checkQuantization(workload, wording);
  if (!willTrace || workload.sequence !== undefined || workload.image !== undefined) return;
  throw new Failure({
    kind: 'input',
    code: 'no-sequence',
    fact: `Neither ${wording.name('seq')} nor ${wording.name('image')} was given.`,
    next: 'Say how long a sequence is, or how large an image.',
  });
}

/**
 * What would go wrong in the real run, though it takes no memory to find out.
 *
 * @example
 * inputNotes(gpt2, { ...workload, sequence: 4096 }); // ['The model has places for 1024 tokens ...']
 */
export function inputNotes(description: ModelDescription, { sequence }: Workload): string[] {
  if (description.family === 'unknown' || sequence === undefined) return [];
  const places = description.stacks.map(({ input }) => learnedPlaces(input));
  const fewest = Math.min(...places);
  if (sequence <= fewest) return [];
  return [
    `The model has places for ${fewest} tokens, fewer than ${sequence}: it would fail when run.`,
  ];
}

/** Only a table of positions runs out; rotary positions go on. */
function learnedPlaces(input: StackInput): number {
  if (input.kind !== 'tokens' || input.positions !== 'learned') return Infinity;
  return input.maxPositions === 'unknown' ? Infinity : input.maxPositions;
}
