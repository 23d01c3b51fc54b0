import {
  type FactsOptions,
  factsOf,
  type ProcessFacts,
} from '../../run/processes/process-facts.js';
import { readProcess } from '../../run/processes/process-table.js';

/** Whose a process is and which job it belongs to, read once in its life. */
export class ProcessOwners {
  readonly #options: FactsOptions;
  #known = new Map<number, ProcessFacts>();

  constructor(options: FactsOptions) {
    this.#options = options;
  }

  /** Those of these processes that can be seen; what is kept of all others is forgotten. */
  read(pids: ReadonlySet<number>): ReadonlyMap<number, ProcessFacts> {
    const found = new Map<number, ProcessFacts>();
    for (const pid of pids) {
      const entry = readProcess(this.#options.procRoot, pid);
      if (entry === undefined) continue;
      const known = this.#known.get(pid);
      // A pid is given again: only the time of its start tells that it is the same process.
      const isSame = known?.started === entry.started;
      found.set(pid, isSame ? known : factsOf(entry, this.#options));
    }
    this.#known = found;
    return found;
  }
}
