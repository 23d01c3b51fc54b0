import { defaultLoadLine } from '../device/load-line.js';

/** A store never plans with more than this part of the machine. */
const maxShare = 0.5;

/**
 * The bytes that a store may hold: what it holds now, and what is free below the load line; less than
 * it holds when the machine is above the line.
 *
 * @example
 * autoLimit({ usedBytes: 95, totalBytes: 100, heldBytes: 20 }); // 15
 */
export function autoLimit(memory: {
  readonly usedBytes: number;
  readonly totalBytes: number;
  readonly heldBytes: number;
}): number {
  const free = defaultLoadLine * memory.totalBytes - memory.usedBytes;
  const most = maxShare * memory.totalBytes;
  return Math.floor(Math.min(most, Math.max(0, memory.heldBytes + free)));
}
