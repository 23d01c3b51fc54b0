import type { Workload } from './types.js';

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
