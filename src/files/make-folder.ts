import { chmodSync, mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Makes a folder and those above it that are not there. Node's own `recursive` never returns where
 * the kernel refuses a new folder with ENOENT, as /proc does.
 *
 * @example
 * makeFolder('/srv/plimsoll/runs', 0o700);
 */
export function makeFolder(path: string, mode?: number): void {
  try {
    mkdirSync(path, mode);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'EEXIST' && isFolder(path)) return;
    const above = dirname(path);
    if (code !== 'ENOENT' || above === path || isFolder(above)) throw error;
    makeFolder(above, mode);
    makeFolder(path, mode);
  }
}

/** Makes a folder that has this mode whatever the umask is; one that is there keeps its own. */
export function makeOpenFolder(path: string, mode: number): void {
  if (isFolder(path)) return;
  makeFolder(path, mode);
  chmodSync(path, mode);
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
