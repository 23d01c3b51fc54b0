import type { ConfigFields } from '../config/config-fields.js';
import type { ParameterList } from '../parameter-list.js';
import type { Attention, FeedForward, Stack, StackInput } from '../types.js';
import { quotient } from './decoder-heads.js';
import type { FamilyParts } from './family.js';

/** Attention in which every head has keys and values of its own, over the whole input. */
export function equalHeads(
  fields: ConfigFields,
  hidden: number,
  heads: number,
  quirks: Partial<Pick<Attention, 'fused' | 'bias' | 'queryKeyNorm'>> = {},
): Attention {
  return {
    reach: 'full',
    heads,
    kvHeads: heads,
    headDim: quotient(fields, hidden, heads),
    fused: false,
    bias: true,
    queryKeyNorm: false,
    ...quirks,
  };
}

/** Two linear layers with an activation between them. */
export function plainFeedForward(inner: number, activation: string, bias = true): FeedForward {
  return { inner, gated: false, activation, bias };
}

export function tokenInput(
  fields: ConfigFields,
  vocabulary: number,
  positions: Extract<StackInput, { kind: 'tokens' }>['positions'],
): StackInput {
  const maxPositions = fields.size('max_position_embeddings');
  return { kind: 'tokens', vocabulary, maxPositions, positions };
}

/** A model of one stack of layers. */
export function oneStack(parts: Omit<FamilyParts, 'stacks'>, stack: Stack): FamilyParts {
  return { ...parts, stacks: [stack] };
}

/** Whole patches that fit into the image, as torch counts them. */
export function patchesOf(fields: ConfigFields): number {
  const [height, width] = fields.square('image_size');
  const [patchHeight, patchWidth] = fields.square('patch_size');
  return Math.floor(height / patchHeight) * Math.floor(width / patchWidth);
}

/** Two matrices up, one down, by their names in the families that descend from Llama. */
export function addGatedFeedForward(
  mlp: ParameterList,
  hidden: number,
  inner: number,
  bias: boolean,
  fused = false,
): void {
  if (fused) mlp.linear('gate_up_proj', hidden, 2 * inner, bias);
  else {
    mlp.linear('gate_proj', hidden, inner, bias);
    mlp.linear('up_proj', hidden, inner, bias);
  }
  mlp.linear('down_proj', inner, hidden, bias);
}

/** The classifier over a whole recording, alike in Whisper and Wav2Vec2. Answers its classes. */
export function addSpeechClassifier(
  parameters: ParameterList,
  fields: ConfigFields,
  hidden: number,
  layers: number,
): number {
  const outputs = fields.labels();
  const projected = fields.size('classifier_proj_size');
  // A weight for each layer and for what goes into the first.
  if (fields.flag('use_weighted_layer_sum')) parameters.tensor('layer_weights', [layers + 1]);
  parameters.linear('projector', hidden, projected);
  parameters.linear('classifier', projected, outputs);
  return outputs;
}
