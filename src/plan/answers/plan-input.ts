import { computesInBfloat16, type Gpu } from '../../estimate/cards/gpu-table.js';
import type { ModelSource } from '../../estimate/model-source.js';
import type { Precision, Workload } from '../../estimate/types.js';
import type { Model, Stack } from '../../model/types.js';
import { isKnown } from '../../units/known.js';
import type { RequestWording } from './wording.js';

/** A workload of which anything may have been left open. */
export type OpenWorkload = Partial<Workload>;

/** How large one sample is. */
export interface PlanInput {
  readonly sequence?: number | undefined;
  readonly image?: number | undefined;
}

/** The length that most training runs take, where the model takes longer samples. */
const trainedSequence = 2048;
/** A usual length, where the config names none. */
const usualSequence = 1024;
/** Ten seconds of sound at 16 kHz. */
const usualWave = 160_000;
/** What classifiers of images are mostly trained with. */
const usualImage = 224;
/** What a sample is worth where nothing tells: only the order of settings hangs on it. */
const usualTokens = 512;
/** The edge of a patch, where a model has none: it makes an image as much work as some tokens. */
const usualPatch = 16;
/** Samples of sound that become one token: the strides of wav2vec 2.0. */
const waveOfToken = 320;

/**
 * What was given, and as most people have it what the model needs beside that.
 *
 * @example
 * filledInput({ kind: 'torchvision', name: 'resnet50' }, [], {}); // { image: 224 }
 */
export function filledInput(
  source: ModelSource,
  stacks: readonly Stack[],
  given: PlanInput,
  /** No longer than this, where the model takes longer ones. */
  longest = trainedSequence,
): PlanInput {
  // A script makes its own.
  if (source.kind === 'script') return given;
  const { sequence, image } = given;
  const nothing = sequence === undefined && image === undefined;
  if (source.kind === 'torchvision') return nothing ? { image: usualImage } : given;
  const edge = stacks.flatMap(({ input }) => (input.kind === 'image' ? input.imageSize[0] : []))[0];
  const length = stacks.length === 0 ? usualSequence : lengthOf(stacks, longest);
  // For a model of images alone the length of a sequence may stand for the edge.
  const needsImage = edge !== undefined && image === undefined && (nothing || length !== undefined);
  return {
    sequence: sequence ?? (nothing || stacks.length > 0 ? length : undefined),
    image: needsImage ? edge : image,
  };
}

/** Undefined where no text goes in, and no sound. */
function lengthOf(stacks: readonly Stack[], longest: number): number | undefined {
  const places = stacks.flatMap(({ input }) => {
    if (input.kind !== 'tokens') return [];
    return isKnown(input.maxPositions) ? input.maxPositions : usualSequence;
  });
  if (places.length > 0) return Math.min(longest, ...places);
  return stacks.some(isWave) ? usualWave : undefined;
}

/**
 * How much one sample gives a GPU to do, counted in tokens.
 *
 * @example
 * tokensPerSample({ kind: 'torchvision', name: 'resnet50' }, [], { image: 224 }); // 196
 */
export function tokensPerSample(
  source: ModelSource,
  stacks: readonly Stack[],
  { sequence, image }: PlanInput,
): number {
  const [patch] = stacks.flatMap(({ input }) => (input.kind === 'image' ? input.patchSize[0] : []));
  const takesImages = source.kind === 'torchvision' || patch !== undefined;
  const takesMore = stacks.some(({ input }) => input.kind !== 'image');
  const isEdge = takesImages && !takesMore && image === undefined;
  const edge = isEdge ? sequence : image;
  const words = isEdge ? undefined : sequence;
  const patches = edge === undefined ? 0 : Math.ceil(edge / (patch ?? usualPatch)) ** 2;
  const tokens = (words ?? 0) / (stacks.some(isWave) ? waveOfToken : 1);
  return Math.ceil(patches + tokens) || usualTokens;
}

function isWave({ input }: Stack): boolean {
  return input.kind === 'audio' && input.channels === 1;
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
  { wording }: { readonly wording: RequestWording },
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
