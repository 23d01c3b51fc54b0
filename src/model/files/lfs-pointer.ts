import type { ByteSource } from './byte-reader.js';

const firstLine = Buffer.from('version https://git-lfs.github.com/spec/');

/** A pointer is a short text; its format allows no more. */
const maxBytes = 1024;

/** Whether a clone without Git LFS left a pointer where the weights should be: a common slip. */
export function isLfsPointer(source: ByteSource): boolean {
  if (source.size > maxBytes || source.size < firstLine.length) return false;
  const start = Buffer.alloc(firstLine.length);
  return source.read(start, 0) === firstLine.length && start.equals(firstLine);
}
