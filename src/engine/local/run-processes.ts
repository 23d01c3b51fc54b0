import { join } from 'node:path';
import { readKernelBytes } from '../../device/kernel-files.js';
import { environmentLimitBytes, readProcesses } from '../../run/processes/process-table.js';
import { runIdIn } from '../../run/processes/run-id.js';

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
