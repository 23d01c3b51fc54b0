import { computesInBfloat16, type Gpu } from '../../estimate/cards/gpu-table.js';
import { usualModel } from '../../estimate/estimate.js';
import { inThisThread } from '../../estimate/estimate-work.js';
import type { ModelSource } from '../../estimate/model-source.js';
import type { Precision } from '../../estimate/types.js';
import type { Model, Stack } from '../../model/model.js';
import { findModel } from '../../model/names/find-model.js';
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

/** Returns the model as read; undefined if only a run can tell. */
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

/** Families whose authors publish their weights in bf16: a config that names no type means it. */
const inBfloat16 = /^(?:llama|mistral|mixtral|qwen|gemma|phi3|falcon|deepseek)/;

/** A precision that was not given, with the reason for people. */
export interface AssumedPrecision {
  readonly precision: Precision;
  readonly why: string;
}

/**
 * The precision in which people run a model: inference and adapters take the weights as they are
 * published; training of the whole model keeps them in 32 bits and computes in 16, where they are
 * published in 16. Undefined where nothing tells, so that 32 bits are taken.
 *
 * @example
 * assumedPrecision({ mode: 'infer' }, llama, gpu)?.precision; // 'bf16'
 */
export function assumedPrecision(
  { mode = 'train', loraRank, quantization }: OpenWorkload,
  model: Model | undefined,
  gpu: Gpu,
): AssumedPrecision | undefined {
  // What lies on the host is computed in 32 bits there; a GGUF file stays as it is.
  const isFixed = quantization === 'cpu' || model?.weights?.format === 'gguf';
  if (model === undefined || isFixed) return undefined;
  const { dtype, family } = model.description;
  const published =
    dtype ?? (inBfloat16.test(family) && !isGeneric(model) ? 'bfloat16' : 'float32');
  if (published !== 'bfloat16' && published !== 'float16') return undefined;
  const hasType = published === 'float16' || computesInBfloat16(gpu);
  const source =
    dtype === undefined
      ? 'models of this family are published in bfloat16'
      : `the config gives its weights as ${dtype}`;
  const from = hasType ? source : `${source}, which this card does not compute in`;
  const asPublished = published === 'float16' || !hasType ? 'fp16' : 'bf16';
  if (mode === 'infer') return { precision: asPublished, why: from };
  if (loraRank !== undefined || quantization !== undefined) {
    return {
      precision: asPublished,
      why: `${from}; adapters are trained beside weights as they are`,
    };
  }
  const mixed = computesInBfloat16(gpu) ? 'amp-bf16' : 'amp-fp16';
  return { precision: mixed, why: `${from}; training keeps them in 32 bits and computes in 16` };
}

function isGeneric({ description }: Model): boolean {
  return description.family !== 'unknown' && description.generic === true;
}

/**
 * A workload with a batch of 1, samples as long as people train with, and the precision that they
 * take, where that was left out; with a note for each that was assumed.
 */
export function withOwnInput(
  open: OpenWorkload,
  source: ModelSource,
  model: Model | undefined,
  gpu: Gpu,
  { wording }: AnswerMachine,
): { readonly workload: OpenWorkload; readonly notes: readonly string[] } {
  if (source.kind === 'script' || source.kind === 'type') return { workload: open, notes: [] };
  const stacks = stacksOf(model);
  const known = source.kind === 'torchvision' || stacks.length > 0;
  const input = known ? filledInput(source, stacks, open) : open;
  const longest = known ? filledInput(source, stacks, open, Infinity).sequence : undefined;
  const isShorter = longest !== undefined && longest !== input.sequence;
  const length = isShorter ? `; the model takes up to ${longest}` : ", the model's own length";
  const usual = open.precision === undefined ? assumedPrecision(open, model, gpu) : undefined;
  const filled = {
    batch: open.batch ?? 1,
    sequence: input.sequence,
    image: input.image,
    precision: open.precision ?? usual?.precision,
  };
  const assumed = [
    ['batch', open.batch, filled.batch, ''],
    ['seq', open.sequence, filled.sequence, length],
    ['image', open.image, filled.image, ", the model's own size"],
    ['precision', open.precision, filled.precision, usual === undefined ? '' : `; ${usual.why}`],
  ] as const;
  const notes = assumed.flatMap(([field, given, value, why]) =>
    given === value ? [] : [`No ${wording.name(field)} was given: ${value} is assumed${why}.`],
  );
  const present = Object.entries(filled).filter(([, value]) => value !== undefined);
  return { workload: { ...open, ...Object.fromEntries(present) }, notes };
}
