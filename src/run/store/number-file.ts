import { readFileSync } from 'node:fs';

/** A number that one of our scripts wrote down; undefined while it has not. */
export function readNumberFile(path: string): number | undefined {
  try {
    const text = readFileSync(path, 'utf8');
    return /^\d{1,10}\n$/.test(text) ? Number(text) : undefined;
  } catch {
    return undefined;
  }
}
