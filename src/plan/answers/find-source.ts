import { usualModel } from '../../estimate/estimate.js';
import { inThisThread } from '../../estimate/estimate-work.js';
import type { ModelSource } from '../../estimate/model-source.js';
import { findModel } from '../../model/names/find-model.js';
import type { Model } from '../../model/types.js';
import type { AnswerMachine } from './machine.js';
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
