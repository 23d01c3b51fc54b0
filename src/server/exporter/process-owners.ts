import {
  type FactsOptions,
  factsOf,
  type ProcessFacts,
} from '../../run/processes/process-facts.js';
import { readProcess } from '../../run/processes/process-table.js';

/**
 * A pid that stays in the lists of a device is the same process; a look into /proc proves it every so
 * many lists. At each of them it would be a tenth of what an exporter costs.
 */
const listsUntilProof = 4;

/** Whose a process is and which job it belongs to, read once in its life. */
export class ProcessOwners {
  readonly #options: FactsOptions;
  #known = new Map<number, ProcessFacts>();
  #lists = 0;

  constructor(options: FactsOptions) {
    this.#options = options;
  }

  /** Those of these processes that can be seen; what is kept of all others is forgotten. */
  read(pids: ReadonlySet<number>): ReadonlyMap<number, ProcessFacts> {
    const found = new Map<number, ProcessFacts>();
    const proves = this.#lists % listsUntilProof === 0;
    this.#lists += 1;
    for (const pid of pids) {
      const known = this.#known.get(pid);
      const facts = known === undefined || proves ? this.#look(pid, known) : known;
      if (facts !== undefined) found.set(pid, facts);
    }
    this.#known = found;
    return found;
  }

  #look(pid: number, known: ProcessFacts | undefined): ProcessFacts | undefined {
    const entry = readProcess(this.#options.procRoot, pid);
    if (entry === undefined) return undefined;
    // A pid is given again: only the time of its start tells that it is the same process.
    return known?.started === entry.started ? known : factsOf(entry, this.#options);
  }
}
