import { usualModel } from '../../estimate/estimate.js';
import { inThisThread } from '../../estimate/estimate-work.js';
import type { ModelSource } from '../../estimate/model-source.js';
import { findModel } from '../../model/names/find-model.js';
import type { Model, Stack } from '../../model/types.js';
import type { AnswerMachine } from './machine.js';
import { filledInput } from './plan-input.js';
import type { OpenWorkload } from './read-workload.js';
import type { NamedSource } from './source-of.js';

/** The model itself: one that was named is looked for. */
export async function findSource(
  named: NamedSource,
  machine: AnswerMachine,
): Promise<{ readonly source: ModelSource; readonly notes: readonly string[] }> {
  if (named.kind !== 'name') return { source: named, notes: [] };
  const { otherModels } = machine.wording;
  return findModel(named.name, { ...machine, catalogueOnly: named.catalogueOnly, otherModels });
}

/** What was read of the model; undefined where nothing but a run tells. */
export async function readModelOf(
  source: ModelSource,
  { work = inThisThread, signal }: AnswerMachine,
): Promise<Model | undefined> {
  if (source.kind === 'parameters') return usualModel(source.parameters);
  if (source.kind !== 'path') return undefined;
  return (await work({ kind: 'read', path: source.path }, signal)).model;
}

export function stacksOf(model: Model | undefined): readonly Stack[] {
  return model === undefined || model.description.family === 'unknown'
    ? []
    : model.description.stacks;
}

/** The length that most training runs take, where the model takes longer samples. */
const trainedSequence = 2048;

/**
 * A workload with a batch of 1 and samples as long as people train with, where that was left out; with
 * a note for each that was assumed.
 */
export function withOwnInput(
  open: OpenWorkload,
  source: ModelSource,
  model: Model | undefined,
  { wording }: AnswerMachine,
): { readonly workload: OpenWorkload; readonly notes: readonly string[] } {
  if (source.kind === 'script' || source.kind === 'type') return { workload: open, notes: [] };
  const stacks = stacksOf(model);
  const known = source.kind === 'torchvision' || stacks.length > 0;
  const input = known ? filledInput(source, stacks, open, trainedSequence) : open;
  const longest = known ? filledInput(source, stacks, open, Infinity).sequence : undefined;
  const isShorter = longest !== undefined && longest !== input.sequence;
  const length = isShorter ? `; the model takes up to ${longest}` : ", the model's own length";
  const filled = { batch: open.batch ?? 1, sequence: input.sequence, image: input.image };
  const assumed = [
    ['batch', open.batch, filled.batch, ''],
    ['seq', open.sequence, filled.sequence, length],
    ['image', open.image, filled.image, ", the model's own size"],
  ] as const;
  const notes = assumed.flatMap(([field, given, value, why]) =>
    given === value ? [] : [`No ${wording.name(field)} was given: ${value} is assumed${why}.`],
  );
  const present = Object.entries(filled).filter(([, value]) => value !== undefined);
  return { workload: { ...open, ...Object.fromEntries(present) }, notes };
}
