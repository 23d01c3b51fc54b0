import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { findCgroup } from '../../src/device/host/cgroup-memory.js';
import { makeLimitCgroup, removeCgroup } from '../../src/run/limit/cgroup.js';
import { killQuietly } from '../../src/run/processes/end-tree.js';
import { hasVariable, readProcesses } from '../../src/run/processes/process-table.js';
import { needs } from '../support/needs.js';

/** For tests of limits by cgroups. Where none can be made, the address space is limited instead. */
export const needsCgroups = needs(canLimitByCgroup(), 'cgroups that can be written');

/** Whether a limit can be set here by a cgroup; where not, the address space is limited. */
export function canLimitByCgroup(): boolean {
  const made = makeLimitCgroup({
    procRoot: '/proc',
    name: `test-${process.pid}`,
    limitBytes: 64 * 1024 * 1024,
  });
  return 'folder' in made && removeCgroup(made.folder);
}

/** Limits of this home's runs that were left behind. */
export function leftCgroups(ids: readonly string[]): readonly string[] {
  const own = findCgroup('/proc')?.folders[0];
  if (own === undefined) return [];
  return readdirSync(own).filter((name) => ids.some((id) => name.includes(id)));
}

export function runIds(home: string): readonly string[] {
  try {
    return readdirSync(join(home, 'runs')).toSorted();
  } catch {
    return [];
  }
}

/** Processes that carry a variable: all that a run started. */
export function livingWith(variable: string): readonly number[] {
  return readProcesses('/proc')
    .filter(({ state }) => state !== 'Z')
    .map(({ pid }) => pid)
    .filter((pid) => hasVariable('/proc', pid, variable));
}

/** Ends all that carry a variable, also what they start meanwhile; afterwards none of them is left. */
export async function endAllWith(variable: string): Promise<void> {
  await until(() => {
    const living = livingWith(variable);
    for (const pid of living) killQuietly(pid, 'SIGKILL');
    return living.length === 0 ? true : undefined;
  });
}

/** Asks again until it is there; the time limit is that of the test. */
export async function until<T>(look: () => T | undefined | Promise<T | undefined>): Promise<T> {
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

export function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
