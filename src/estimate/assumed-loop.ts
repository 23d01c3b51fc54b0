import type { ModelDescription } from '../model/types.js';
import { targetLength } from './target-length.js';
import type { Estimate, Workload } from './types.js';
import type { Wording } from './wording.js';

/**
 * Which loop an estimate of a config stands for, where a usual program may do otherwise: what it
 * holds between steps, and how long the labels are. A trace tells of the labels itself, since it
 * knows the class.
 *
 * @example
 * assumedNotes(found, gpt2, workload, callWording);
 * // ["Assumed: the loop keeps only the loss ..."]
 */
export function assumedNotes(
  { method }: Estimate,
  description: ModelDescription,
  workload: Workload,
  { name, example }: Wording,
): string[] {
  const notes: string[] = [];
  if (workload.mode === 'train' && workload.keep === undefined) {
    notes.push(
      `Assumed: the loop keeps only the loss. One that keeps the model's outputs until the next step, as in outputs = model(**batch), needs more: ${example('keep', 'outputs')}.`,
    );
  }
  const halved = method === 'formula' && description.family === 't5';
  if (halved && workload.targetSequence === undefined) {
    const length = targetLength(workload);
    notes.push(
      `Assumed: labels of ${length} tokens, half of the input. ${name('targetSeq')} says otherwise.`,
    );
  }
  return notes;
}
