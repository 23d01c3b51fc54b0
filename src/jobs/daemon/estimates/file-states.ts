import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
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

const ofModels = /\.(json|safetensors|gguf)$/i;
const config = /(?<!\.index)\.json$/i;

/**
 * The files that an answer about a model may be read from: a config alone, or all that lie in the
 * folder of weights, as there the config, the index and the parts belong together.
 *
 * @example
 * await modelFiles('/models/gpt2'); // ['/models/gpt2/config.json', '/models/gpt2/model.safetensors']
 */
export async function modelFiles(path: string): Promise<readonly string[]> {
  try {
    const isFolder = (await stat(path)).isDirectory();
    if (!isFolder && config.test(path)) return [path];
    const folder = isFolder ? path : dirname(path);
    const names = (await readdir(folder)).filter((name) => ofModels.test(name)).toSorted();
    const files = names.map((name) => join(folder, name));
    return isFolder || files.includes(path) ? files : [path, ...files];
  } catch {
    // Nothing is there, or may be seen; the answer will say so.
    return [path];
  }
}

/** Sources and settings; what else a script reads is its own affair. */
const read = /\.(py|json|ya?ml|toml|cfg|ini|txt)$/i;
const skipped = /^(\.|__pycache__$|node_modules$|venv$)/;
/** A project; beyond that, looking at the files takes as long as a trace. */
const maxFiles = 500;
const deepest = 4;

/**
 * The files that a script may import or read from the folder it lies in. Undefined where there are too
 * many to look at.
 *
 * @example
 * await scriptFiles('/srv/job/train.py'); // ['/srv/job/train.py', '/srv/job/net.py']
 */
export async function scriptFiles(path: string): Promise<readonly string[] | undefined> {
  const found = new Set([path]);
  const open: { folder: string; depth: number }[] = [{ folder: dirname(path), depth: 0 }];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { folder, depth } = next;
    const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
    for (const entry of entries) {
      if (skipped.test(entry.name)) continue;
      const inside = join(folder, entry.name);
      if (entry.isDirectory() && depth < deepest) open.push({ folder: inside, depth: depth + 1 });
      else if (read.test(entry.name)) found.add(inside);
    }
    if (found.size + open.length > maxFiles) return undefined;
  }
  return [...found].toSorted();
}
