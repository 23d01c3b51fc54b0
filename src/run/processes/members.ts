import { descendants, hasVariable, type ProcessEntry, readProcesses } from './process-table.js';

/** By what the processes of a run are known. */
export interface Membership {
  readonly procRoot: string;
  /** Given to the job's environment, and so to all it starts: `PLIMSOLL_RUN_ID=...`. */
  readonly variable: string;
  readonly roots: (table: readonly ProcessEntry[]) => readonly number[];
  /** Those in the limit that was made for it. */
  readonly inLimit: () => readonly number[];
}

/**
 * All living processes of a run: below its keeper or an orphan of it, in its cgroup, or started with
 * its variable. A daemon leaves its parents, but not its cgroup, and seldom its environment.
 */
export function membersOf(
  membership: Membership,
  /** Reading every environment costs most; while a run goes on those below it are enough. */
  how: 'all' | 'below' = 'all',
): readonly number[] {
  const { procRoot, variable } = membership;
  const table = readProcesses(procRoot);
  const below = descendants(table, new Set(membership.roots(table)));
  const ended = new Set(table.filter(({ state }) => 'ZX'.includes(state)).map(({ pid }) => pid));
  // Read after the table: what forks fast is in the limit, and not in the table yet.
  const limited = new Set(membership.inLimit());
  const found = table
    .map(({ pid }) => pid)
    .filter((pid) => {
      if (below.has(pid) || limited.has(pid)) return true;
      return how === 'all' && hasVariable(procRoot, pid, variable);
    });
  return [...new Set([...found, ...limited])].filter(
    (pid) => pid !== process.pid && !ended.has(pid),
  );
}
