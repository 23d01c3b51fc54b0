import type { Clock } from '../../time/clock.js';
import { descendants, hasVariable, type ProcessEntry, readProcesses } from './process-table.js';

/** How long each step of ending waits before the next, harder one. */
export interface Patience {
  /** For what the job left behind to end by itself: an uploader of logs has a last word to say. */
  readonly bySelfSeconds: number;
  readonly afterTermSeconds: number;
}

export interface EndTreeOptions {
  readonly members: () => readonly number[];
  readonly kill: (pid: number, signal: NodeJS.Signals) => void;
  /** Those in the limit that was made for it, and its orphans: a list that is quick to read. */
  readonly limit: { readonly pids: () => readonly number[]; readonly killAll: () => void };
  readonly clock: Clock;
  readonly patience: Patience;
}

/** A process can start another while it is being killed; so often we look again. */
const killRounds = 50;
/** Between two of these rounds, those in the limit are killed again and again without a pause. */
const limitRounds = 2000;
/** A tree that forks is stopped within a few looks, each of which stops all that it finds. */
const freezeRounds = 10;
const lookSeconds = 0.05;

/**
 * Ends all that is left of a run: first it may end by itself, then it is asked to (SIGTERM), then it
 * is killed. Answers the pids that could not be ended: none, unless they are not ours to kill.
 */
export async function endTree(options: EndTreeOptions): Promise<readonly number[]> {
  const { members, clock, patience } = options;
  const signalAll = (signal: NodeJS.Signals) => {
    for (const pid of members()) options.kill(pid, signal);
  };
  if (await gone(options, patience.bySelfSeconds)) return [];
  signalAll('SIGTERM');
  // One that is stopped would never hear of it.
  signalAll('SIGCONT');
  if (await gone(options, patience.afterTermSeconds)) return [];
  for (let round = 0; round < killRounds; round++) {
    killLimit(options);
    freeze(options);
    signalAll('SIGKILL');
    await clock.waitUntil(clock.seconds() + lookSeconds);
    if (members().length === 0) return [];
  }
  return members();
}

/**
 * Stops all before any is killed: where the number of processes has a limit, each that ends would make
 * room for another.
 */
function freeze({ members, kill }: EndTreeOptions): void {
  let stopped = new Set<number>();
  for (let round = 0; round < freezeRounds; round++) {
    const found = members();
    if (found.every((pid) => stopped.has(pid))) return;
    for (const pid of found) kill(pid, 'SIGSTOP');
    stopped = new Set(found);
  }
}

/**
 * A process that forks and ends, again and again, is gone when its pid has been found in the table of
 * all processes. The list of its limit takes microseconds to read, so its newest child is met.
 */
function killLimit({ limit, kill }: EndTreeOptions): void {
  limit.killAll();
  for (let round = 0; round < limitRounds; round++) {
    const pids = limit.pids();
    if (pids.length === 0) return;
    for (const pid of pids) kill(pid, 'SIGKILL');
  }
}

async function gone({ members, clock }: EndTreeOptions, seconds: number): Promise<boolean> {
  const until = clock.seconds() + seconds;
  while (members().length > 0) {
    if (clock.seconds() >= until) return false;
    await clock.waitUntil(Math.min(until, clock.seconds() + lookSeconds));
  }
  return true;
}

/** A process that is gone already is what we want. */
export function killQuietly(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It ended, or it is not ours.
  }
}

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
