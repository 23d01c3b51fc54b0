import { readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { isSupervised } from '../../run/store/supervisor-lock.js';

/** Logs of so many lists are kept on each host. */
export const keptLists = 20;

/** Where the lists of `plimsoll pack` lie; each host has its own, the home may be shared. */
export function packFolder(home: string, host: string, list: string): string {
  return join(home, 'pack', `${host}-${list}`);
}

/**
 * Removes the oldest lists of this host. What belongs to a process that lives stays: the list itself
 * (`takeRun` names its process), or a job that outlived it.
 */
export function clearPackFolders(home: string, host: string, procRoot: string): void {
  const lists = namesIn(join(home, 'pack'))
    .filter((name) => name.startsWith(`${host}-`) && /^\d+$/.test(name.slice(host.length + 1)))
    .map((name) => join(home, 'pack', name))
    .flatMap((path) => {
      const found = statSync(path, { throwIfNoEntry: false });
      return found?.isDirectory() ? [{ path, changedMs: found.mtimeMs }] : [];
    })
    .toSorted((a, b) => b.changedMs - a.changedMs);
  for (const { path } of lists.slice(keptLists)) {
    const runs = namesIn(join(path, 'runs')).map((name) => join(path, 'runs', name));
    if ([path, ...runs].some((one) => isSupervised(one, procRoot))) continue;
    rmSync(path, { recursive: true, force: true });
  }
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
