import type { KnownModel, Stack } from '../../../model/model.js';
import type { Workload } from '../../types.js';
import { NoFormula } from '../checks.js';
import type { Net } from '../run/net.js';
import type { Tensor } from '../run/tape.js';

/** A model that was built, ready to run one step after another. */
export interface Built {
  /** Everything that a step takes in. */
  batch(): Tensor[];
  /** The loss in training, whatever the model puts out in inference. */
  forward(batch: readonly Tensor[]): Tensor;
}

export interface BuildInput {
  readonly net: Net;
  readonly model: KnownModel;
  readonly workload: Workload;
}

export type Build = (input: BuildInput) => Built;

export function stackOf(model: KnownModel, role: Stack['role']): Stack {
  const found = model.stacks.find((stack) => stack.role === role);
  if (found === undefined) throw new NoFormula(`the class ${model.className}`);
  return found;
}

/** Whether some layer has a parameter whose name ends so. */
export function hasTensor(model: KnownModel, end: string): boolean {
  return model.tensors.some(({ name }) => name.endsWith(end));
}

/** Height and width of an image: as asked for, or as the model was made for. */
export function imageEdges(
  { image, sequence }: Workload,
  imageSize: readonly [number, number],
): readonly [number, number] {
  const edge = image ?? sequence;
  return edge === undefined ? imageSize : [edge, edge];
}

/**
 * Tokens of the labels of an encoder with a decoder. Half of the input where nothing is said: answers
 * and summaries are shorter than what they are made from.
 *
 * @example
 * targetLength({ ...workload, sequence: 512 }); // 256
 */
export function targetLength({ sequence = 1, targetSequence }: Workload): number {
  return targetSequence ?? Math.max(1, Math.floor(sequence / 2));
}
