import { readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';

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
