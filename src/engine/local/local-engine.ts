import { join } from 'node:path';
import { machineRoots, readKernelBytes } from '../../device/kernel-files.js';
import { readCgroup } from '../../run/limit/cgroup.js';
import { readLimitOrder } from '../../run/limit/moving-limit.js';
import type { LogLimit } from '../../run/log/log-limit.js';
import { runIdIn } from '../../run/processes/process-facts.js';
import {
  environmentLimitBytes,
  readProcesses,
  readResident,
} from '../../run/processes/process-table.js';
import { readProgressFile } from '../../run/store/progress-file.js';
import { RunFolder } from '../../run/store/run-folder.js';
import { type Clock, systemClock } from '../../time/clock.js';
import { checkArguments, fileName, object, texts } from '../../units/arguments.js';
import { isKnown } from '../../units/known.js';
import type { Engine, EngineRun, RunNews, RunOrder, RunUse } from '../types.js';
import { LocalRun, type LocalRunParts } from './local-run.js';

/** Between two looks at the journals of runs that go on; no looks while none does. */
const lookSeconds = 0.3;

export interface LocalEngineOptions {
  /** Where runs are kept: `$PLIMSOLL_HOME`. */
  readonly home: string;
  /** The command `plimsoll` as this machine starts it: `[process.execPath, '.../bin/plimsoll.js']`. */
  readonly command: readonly string[];
  /** Of the supervisors, and below what each order adds of the programs. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Where supervisors start: the folder whose configuration they read. */
  readonly folder: string;
  /** How much of each log is kept, where it is not what jobs have. */
  readonly logLimit?: LogLimit;
  readonly clock?: Clock;
  readonly procRoot?: string;
}

const engineRules = { home: fileName, command: texts, environment: object, folder: fileName };

/**
 * Runs on this machine, each under a supervisor in a session of its own. They go on when this process
 * ends; the next one carries them again.
 *
 * @example
 * const engine = localEngine({ home, command: [process.execPath, 'bin/plimsoll.js'], environment, folder });
 * const run = engine.openRun(order, (news) => console.log(news.type));
 */
export function localEngine(options: LocalEngineOptions): Engine {
  checkArguments('localEngine', { ...Object(options) }, engineRules);
  const { home, clock = systemClock, procRoot = machineRoots.proc } = options;
  const runs = new Map<string, LocalRun>();
  const processes = new RunProcesses(procRoot);
  const closing = new AbortController();
  let isLooking = false;
  const parts: LocalRunParts = {
    ...options,
    clock,
    procRoot,
    environment: { ...options.environment, PLIMSOLL_HOME: home },
  };

  async function lookOn(): Promise<void> {
    if (isLooking) return;
    isLooking = true;
    while (runs.size > 0 && !closing.signal.aborted) {
      for (const [id, run] of runs) if (run.look()) runs.delete(id);
      await clock.waitUntil(clock.seconds() + lookSeconds, closing.signal);
    }
    isLooking = false;
  }

  return {
    openRun(order: RunOrder, onNews: (news: RunNews) => void): EngineRun {
      const run = new LocalRun(order, parts, onNews);
      runs.set(order.id, run);
      // Never from within the call: the caller has not heard its answer yet.
      setImmediate(() => void lookOn());
      return {
        stop: () => run.stop(),
        limit: (bytes) => run.limit(bytes),
        limitAsked: () => readLimitOrder(new RunFolder(home, order.id).path),
        progress: (number) => readProgressFile(new RunFolder(home, order.id).progress(number)),
        release: () => {
          runs.delete(order.id);
        },
      };
    },
    use(): RunUse {
      // Read only when asked for: where the kernel counts a run's memory, the table is not needed.
      let table: ReadonlyMap<number, string | undefined> | undefined;
      const runOf = () => (table ??= processes.look());
      return {
        knows: (pid) => runOf().has(pid),
        runOf: (pid) => runOf().get(pid),
        hostBytes(runId) {
          const cgroup = runs.get(runId)?.cgroup;
          const held = cgroup === undefined ? 'unknown' : readCgroup(cgroup).heldBytes;
          if (isKnown(held)) return held;
          const pids = [...runOf()].filter(([, id]) => id === runId).map(([pid]) => pid);
          return residentBytes(procRoot, pids);
        },
      };
    },
    forget: (runId) => new RunFolder(home, runId).remove(),
    close() {
      closing.abort();
      runs.clear();
    },
  };
}

function residentBytes(procRoot: string, pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + (readResident(procRoot, pid)?.nowBytes ?? 0), 0);
}

/** Between its fork and its exec a process shows its parent's environment: it is looked at again. */
const looks = 3;

interface SeenProcess {
  readonly started: number;
  runId: string | undefined;
  looks: number;
}

/** Which processes belong to which run; an environment is read once for each process. */
export class RunProcesses {
  readonly #procRoot: string;
  #known = new Map<number, SeenProcess>();

  constructor(procRoot: string) {
    this.#procRoot = procRoot;
  }

  /** One pass over the table: the run of each process, undefined where it has none. */
  look(): ReadonlyMap<number, string | undefined> {
    const table = readProcesses(this.#procRoot).filter(({ state }) => state !== 'Z');
    const known = new Map<number, SeenProcess>();
    const parents = new Map<number, number>();
    for (const { pid, parent, started } of table) {
      parents.set(pid, parent);
      const before = this.#known.get(pid);
      const entry = before?.started === started ? before : { started, runId: undefined, looks: 0 };
      if (entry.runId === undefined && entry.looks < looks) {
        entry.runId = this.#runIdOf(pid);
        entry.looks++;
      }
      known.set(pid, entry);
    }
    this.#known = known;
    return new Map(table.map(({ pid }) => [pid, runAbove(pid, known, parents)]));
  }

  #runIdOf(pid: number): string | undefined {
    const path = join(this.#procRoot, String(pid), 'environ');
    return runIdIn(readKernelBytes(path, environmentLimitBytes) ?? new Uint8Array());
  }
}

/** A program that cleared its environment still has its parents. */
function runAbove(
  pid: number,
  known: ReadonlyMap<number, SeenProcess>,
  parents: ReadonlyMap<number, number>,
): string | undefined {
  const seen = new Set<number>();
  for (let at: number | undefined = pid; at !== undefined && !seen.has(at); at = parents.get(at)) {
    const runId = known.get(at)?.runId;
    if (runId !== undefined) return runId;
    seen.add(at);
  }
  return undefined;
}
