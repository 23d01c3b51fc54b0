import type { ConfigFields } from '../config/config-fields.js';

/** Torch rounds down, and a head without elements cannot be built. */
export function quotient(fields: ConfigFields, hidden: number, heads: number): number {
  const headDim = Math.floor(hidden / heads);
  if (headDim > 0) return headDim;
  throw fields.bad('num_attention_heads', `${heads}, more than the hidden size of ${hidden}`);
}
