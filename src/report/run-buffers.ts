import type { AttemptBuffers } from '../run/types.js';
import { formatBytes } from '../units/bytes.js';
import { isKnown } from '../units/known.js';

/**
 * Buffer stores of an attempt in one sentence.
 *
 * @example
 * bufferWords(attempt.buffers); // Buffers: 12 items, 3.0 GiB held of 5.1 GiB raw (1.70 x); 90 % hits, 4 evictions
 */
export function bufferWords(buffers: AttemptBuffers): string {
  const { items, memoryBytes, fileBytes, rawBytes, hitRate, compressionRatio, evictions } = buffers;
  const held = formatBytes(memoryBytes + fileBytes);
  const ratio = isKnown(compressionRatio) ? ` (${compressionRatio.toFixed(2)} x)` : '';
  const hits = isKnown(hitRate) ? `${Math.round(hitRate * 100)} % hits` : 'no request';
  return `Buffers: ${items} items, ${held} held of ${formatBytes(rawBytes)} raw${ratio}; ${hits}, ${evictions} evictions`;
}
