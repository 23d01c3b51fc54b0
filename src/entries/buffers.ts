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

export {
  ArrayBufferPool,
  type ArrayBufferPoolOptions,
  type ArrayBufferPoolStatistics,
  type LentBytes,
} from '../buffers/array-buffer-pool.js';
export type { BufferStatistics } from '../buffers/buffer-store.js';
export { BufferStore } from '../buffers/buffer-store.js';
export type { BufferStoreOptions, MemoryReading } from '../buffers/options.js';
export type {
  BufferPart,
  BufferValue,
  DataTypeName,
  ShapedArray,
  TypedArray,
} from '../buffers/value.js';
