import { createHash } from 'node:crypto';
import type { EventStream } from './event-stream.js';

/**
 * The same for two streams that ask an allocator for the very same, in the same order.
 *
 * @example
 * digestOf(first.stream) === digestOf(second.stream); // both programs ran alike
 */
export function digestOf({ kind, slot, bytes, streams }: EventStream): string {
  const hash = createHash('sha256');
  for (const column of [kind, slot, bytes, streams]) hash.update(column).update('|');
  return hash.digest('hex');
}
