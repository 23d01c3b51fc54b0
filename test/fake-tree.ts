import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Roots } from '../src/device/kernel-files.js';

/** A folder that stands for a machine's /proc, /sys and /dev. */
export interface FakeTree {
  readonly folder: string;
  readonly roots: Roots;
  /** Writes files, by path below the folder. */
  write(files: Readonly<Record<string, string | Buffer>>): Promise<void>;
  /** Makes symbolic links, by path below the folder; a target may lead nowhere. */
  link(links: Readonly<Record<string, string>>): Promise<void>;
  remove(path: string): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

export async function makeFakeTree(
  files: Readonly<Record<string, string | Buffer>> = {},
): Promise<FakeTree> {
  const folder = await mkdtemp(join(tmpdir(), 'plimsoll-tree-'));
  const tree: FakeTree = {
    folder,
    roots: { proc: join(folder, 'proc'), sys: join(folder, 'sys'), dev: join(folder, 'dev') },
    async write(more) {
      for (const [path, content] of Object.entries(more)) {
        await mkdir(dirname(join(folder, path)), { recursive: true });
        await writeFile(join(folder, path), content);
      }
    },
    async link(links) {
      for (const [path, target] of Object.entries(links)) {
        await mkdir(dirname(join(folder, path)), { recursive: true });
        await symlink(target, join(folder, path));
      }
    },
    remove: (path) => rm(join(folder, path), { recursive: true, force: true }),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
  await tree.write(files);
  return tree;
}
