import type { ConfigFields } from '../config/config-fields.js';
import type { Attention, FeedForward, Stack, StackInput } from '../types.js';
import type { FamilyParts } from './family.js';
import { quotient } from './head-dim.js';

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
