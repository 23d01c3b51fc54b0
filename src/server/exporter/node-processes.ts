import type { ProcessReading } from '../../device/types.js';
import type { FactsOptions, ProcessFacts } from '../../run/processes/process-facts.js';
import { isKnown } from '../../units/known.js';
import type { DeviceState } from '../../watch/types.js';
import { NodeJobs, type OwnedProcess } from './node-jobs.js';
import type { ProcessFigures } from './process-families.js';
import { ProcessOwners } from './process-owners.js';

/** Processes of a device whose jobs are looked up: more than any GPU holds. */
const ownedProcesses = 512;

/** Who holds memory on a node: processes, their users and jobs, as last read. */
export class NodeProcesses {
  readonly jobs = new NodeJobs();
  readonly #owners: ProcessOwners;
  #facts: ReadonlyMap<number, ProcessFacts> = new Map();
  #processes: readonly OwnedProcess[] = [];

  constructor(options: FactsOptions) {
    this.#owners = new ProcessOwners(options);
  }

  /** Looks up whose the processes are; all devices at once, as a process may be on several. */
  read(states: readonly DeviceState[]): void {
    const there = states.filter(({ present }) => present);
    const pids = there.filter(isReal).flatMap((state) => listOf(state).map(({ pid }) => pid));
    this.#facts = this.#owners.read(new Set(pids));
    this.#processes = there.flatMap((state) =>
      listOf(state).map(({ pid, name, usedBytes }) => ({
        pid,
        name,
        usedBytes,
        device: state.info.id,
        job: this.#factsOf(state, pid)?.job,
      })),
    );
    this.jobs.take(this.#processes);
  }

  /** The largest of each device, and those that leak. */
  shown(states: readonly DeviceState[], most: number): readonly ProcessFigures[] {
    return states.flatMap((state) => {
      const here = this.#processes.filter(({ device }) => device === state.info.id);
      return here.flatMap((one, index): readonly ProcessFigures[] => {
        const leak = state.processLeaks.get(one.pid);
        const leakBytesPerSecond = leak?.found === true ? leak.bytesPerSecond : 'unknown';
        if (index >= most && !isKnown(leakBytesPerSecond)) return [];
        const user = this.#factsOf(state, one.pid)?.user ?? 'unknown';
        return [{ ...one, user, leakBytesPerSecond }];
      });
    });
  }

  /** The processes of a simulated device exist nowhere. */
  #factsOf(state: DeviceState, pid: number): ProcessFacts | undefined {
    return isReal(state) ? this.#facts.get(pid) : undefined;
  }
}

function isReal({ info }: DeviceState): boolean {
  return info.provenance === 'measured';
}

function listOf({ processes }: DeviceState): readonly ProcessReading[] {
  return isKnown(processes) ? processes.slice(0, ownedProcesses) : [];
}
