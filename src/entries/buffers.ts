/**
 * Buffers in a Node program: compressed, within a limit of memory, large ones in files.
 *
 * @example
 * import { BufferStore } from 'plimsoll/buffers';
 *
 * using store = new BufferStore({ limit: '1GiB', folder: './frames' });
 * store.put('frame/1', new Float32Array(84 * 84));
 *
 * @module
 */

export type { BufferStatistics } from '../buffers/buffer-store.js';
export { BufferStore } from '../buffers/buffer-store.js';
export type { DataTypeName, TypedArray } from '../buffers/format/data-types.js';
export type { BufferPart, BufferValue, ShapedArray } from '../buffers/format/value.js';
export type { MemoryReading } from '../buffers/host-memory.js';
export type { BufferStoreOptions } from '../buffers/options.js';
export {
  ArrayBufferPool,
  type ArrayBufferPoolOptions,
  type ArrayBufferPoolStatistics,
  type LentBytes,
} from '../buffers/pool/array-buffer-pool.js';
