import type { AttemptBuffers } from '../types.js';

/** What one process reports of its buffer stores; whole numbers. */
export type BufferFigures = Omit<AttemptBuffers, 'hitRate' | 'compressionRatio'>;

export const bufferFields = [
  'items',
  'hits',
  'misses',
  'evictions',
  'memoryBytes',
  'fileBytes',
  'rawBytes',
] as const satisfies readonly (keyof BufferFigures)[];

/** Of all processes together; undefined where none has a store. */
export function sumBuffers(all: readonly BufferFigures[]): AttemptBuffers | undefined {
  if (all.length === 0) return undefined;
  const total = (name: keyof BufferFigures) => all.reduce((sum, one) => sum + one[name], 0);
  const [hits, misses] = [total('hits'), total('misses')];
  const [memoryBytes, fileBytes, rawBytes] = [
    total('memoryBytes'),
    total('fileBytes'),
    total('rawBytes'),
  ];
  return {
    items: total('items'),
    hits,
    misses,
    evictions: total('evictions'),
    memoryBytes,
    fileBytes,
    rawBytes,
    hitRate: hits + misses === 0 ? 'unknown' : hits / (hits + misses),
    compressionRatio:
      memoryBytes + fileBytes === 0 ? 'unknown' : rawBytes / (memoryBytes + fileBytes),
  };
}
