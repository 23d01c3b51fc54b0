import { readOwnFile } from '../../files/own-file.js';

/** Ten digits and a line end. */
const maxBytes = 64;

/** A number that one of our scripts wrote down; undefined while it has not. */
export function readNumberFile(path: string): number | undefined {
  const text = readOwnFile(path, maxBytes) ?? '';
  return /^\d{1,10}\n$/.test(text) ? Number(text) : undefined;
}
