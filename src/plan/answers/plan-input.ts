import type { ModelSource } from '../../estimate/model-source.js';
import type { Stack } from '../../model/model.js';
import { isKnown } from '../../units/known.js';

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
/** The usual edge of images for classifiers. */
const usualImage = 224;
/** The assumed length of a sample; it only affects the order of settings. */
const usualTokens = 512;
/** The edge of a patch, where a model has none: it makes an image as much work as some tokens. */
const usualPatch = 16;
/** Samples of sound that become one token: the strides of wav2vec 2.0. */
const waveOfToken = 320;

/**
 * Completes the given input with the usual values of the fields that the model needs.
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
