import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { MiB } from '../../../units/bytes.js';

/** A config is a page of text and is read whole; of weights the time of their change must do. */
const readBytes = MiB;

/**
 * The names of files and folders with what would be different if one of them had changed.
 *
 * @example
 * const before = await fileStates(['/models/gpt2/config.json']);
 */
export async function fileStates(paths: readonly string[]): Promise<readonly string[]> {
  const states: string[] = [];
  // One after another: a server has its descriptors for other things.
  for (const path of paths) states.push(`${path} ${await fileState(path)}`);
  return states;
}

/**
 * Clocks of file systems tick every few milliseconds and can be turned back, so what is small counts
 * by its content, too.
 */
async function fileState(path: string): Promise<string> {
  try {
    const found = await stat(path, { bigint: true });
    const { dev, ino, size, mtimeNs, ctimeNs } = found;
    const state = [dev, ino, size, mtimeNs, ctimeNs].join(' ');
    if (!found.isFile() || size > readBytes) return state;
    return `${state} ${await digestOf(path)}`;
  } catch {
    // The reader says why; here it is only another state.
    return 'unreadable';
  }
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  // It may be growing.
  for await (const bytes of createReadStream(path, { end: readBytes })) hash.update(bytes);
  return hash.digest('hex');
}
