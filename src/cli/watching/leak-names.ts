import { machineRoots } from '../../device/roots.js';
import { type ProcessFacts, readProcessFacts } from '../../run/processes/process-facts.js';
import { openUserNames } from '../../run/processes/user-names.js';
import { isKnown, type Known } from '../../units/known.js';
import type { DeviceState } from '../../watch/types.js';

/** Who a process is that leaks, and what to do to learn what in it does. */
export interface LeakName {
  readonly user: Known<string>;
  readonly commandLine: Known<string>;
  /** Or `none`. */
  readonly script: Known<string>;
  /** Or `none`. */
  readonly container: Known<string>;
  readonly next: string;
}

/** Reads who a process is when it is first seen to grow: at the end of the watch it may be gone. */
export class LeakNames {
  readonly #names = new Map<number, LeakName>();
  readonly #options = { procRoot: machineRoots.proc, userName: openUserNames() };

  take({ info, processLeaks }: DeviceState): void {
    if (info.provenance === 'simulated') return;
    for (const pid of processLeaks.keys()) this.read(pid);
  }

  read(pid: number): void {
    if (this.#names.has(pid)) return;
    const facts = readProcessFacts(pid, this.#options);
    if (facts !== undefined) this.#names.set(pid, leakName(facts));
  }

  of = (pid: number): LeakName | undefined => this.#names.get(pid);
}

/** What is told of a process whose facts are known. */
export function leakName(facts: ProcessFacts): LeakName {
  const { user, commandLine, script, container } = facts;
  return { user, commandLine, script, container, next: nextStep(facts) };
}

function nextStep({ commandLine, script, run, pid }: ProcessFacts): string {
  const isPython = isKnown(commandLine) && /(^|\/)(python|pypy)[\d.]*( |$)/.test(commandLine);
  if (!isPython) {
    return /(^|\/)node( |$)/.test(commandLine)
      ? 'Start it with --heapsnapshot-signal=SIGUSR2, send that signal twice, and compare the two snapshots.'
      : `Its own profiler must tell what grows; plimsoll monitor shows process ${pid} over time.`;
  }
  const where = script === 'none' || !isKnown(script) ? 'it' : script;
  const how =
    run === 'none' || !isKnown(run)
      ? `pip install plimsoll, then in ${where}`
      : `plimsoll is in this program (run ${run}): in ${where}`;
  return `${how} put "debug = plimsoll.debugger(); debug.start()" before the loop and "debug.stop(); print(debug.report())" after it: it names the tensors and objects that grow, and the variable that holds them.`;
}
