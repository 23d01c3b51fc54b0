import { factsOf } from '../../run/processes/process-facts.js';
import { readProcess, ticksPerSecond } from '../../run/processes/process-table.js';
import { isKnown, type Known } from '../../units/known.js';
import type { DeviceState } from '../../watch/types.js';
import { type ProcessDetails, rowKey } from './build-rows.js';

/** Four minutes at one reading a second, in as many numbers as the widest drawing has cells. */
const keptValues = 240;
/** Of the processes that are not on the screen, so many are read again in each round. */
const othersEachRound = 24;

/** What is remembered of processes that are gone is dropped this often. */
const forgetSeconds = 10;

export interface ProcessWatchOptions {
  readonly procRoot: string;
  readonly userName: (uid: number) => string;
  readonly seconds: () => number;
}

/** A device and its processes. */
export interface Holding {
  readonly info: Pick<DeviceState['info'], 'id'>;
  readonly processes: DeviceState['processes'];
}

interface KnownProcess extends ProcessDetails {
  cpuTicks: number;
  atSeconds: number;
  cpuPercent: Known<number>;
}

/**
 * What the screen remembers of processes: who they are (read once), what they use of the processor
 * (those in sight each round, the others in turn), and their memory over time.
 */
export class ProcessWatch {
  readonly #options: ProcessWatchOptions;
  readonly #known = new Map<number, KnownProcess | undefined>();
  readonly #trails = new Map<string, number[]>();
  readonly #taken = new Map<string, unknown>();
  #turn: number[] = [];
  #nextForget = 0;

  constructor(options: ProcessWatchOptions) {
    this.#options = options;
  }

  /** Takes a new reading of processes, if there is one, and forgets now and then those that are gone. */
  take(states: readonly Holding[]): void {
    let isNew = false;
    for (const { info, processes } of states) {
      if (this.#taken.get(info.id) === processes) continue;
      this.#taken.set(info.id, processes);
      isNew = true;
      for (const { pid, usedBytes } of isKnown(processes) ? processes : []) {
        this.#extend(rowKey(pid, info.id), isKnown(usedBytes) ? usedBytes : Number.NaN);
      }
    }
    const now = this.#options.seconds();
    if (!isNew || now < this.#nextForget) return;
    this.#nextForget = now + forgetSeconds;
    this.#forget(states);
  }

  /** Reads these again, and a few of the others. */
  refresh(inSight: Iterable<number>): void {
    const pids = new Set(inSight);
    if (this.#turn.length === 0) this.#turn = [...this.#known.keys()];
    for (const pid of this.#turn.splice(0, othersEachRound)) pids.add(pid);
    for (const pid of pids) this.#read(pid);
  }

  details = (pid: number): ProcessDetails | undefined => {
    if (!this.#known.has(pid)) this.#read(pid);
    return this.#known.get(pid);
  };

  trail = (key: string): readonly number[] => this.#trails.get(key) ?? [];

  #extend(key: string, value: number): void {
    const trail = this.#trails.get(key);
    if (trail === undefined) this.#trails.set(key, [value]);
    else {
      trail.push(value);
      if (trail.length > keptValues) trail.shift();
    }
  }

  /** Another process has got the pid: the past is not its own. */
  #dropTrails(pid: number): void {
    for (const key of this.#trails.keys()) if (key.startsWith(`${pid} `)) this.#trails.delete(key);
  }

  #forget(states: readonly Holding[]): void {
    const keys = new Set<string>();
    const pids = new Set<number>();
    for (const { info, processes } of states) {
      for (const { pid } of isKnown(processes) ? processes : []) {
        keys.add(rowKey(pid, info.id));
        pids.add(pid);
      }
    }
    for (const key of this.#trails.keys()) if (!keys.has(key)) this.#trails.delete(key);
    for (const pid of this.#known.keys()) {
      // A parent that holds nothing itself stays known while it lives.
      if (!pids.has(pid)) this.#read(pid);
      if (!pids.has(pid) && this.#known.get(pid) === undefined) this.#known.delete(pid);
    }
  }

  #read(pid: number): void {
    const entry = readProcess(this.#options.procRoot, pid);
    if (entry === undefined) {
      this.#known.set(pid, undefined);
      return;
    }
    const atSeconds = this.#options.seconds();
    const { cpuTicks } = entry;
    const before = this.#known.get(pid);
    if (before?.facts.started !== entry.started) {
      if (before !== undefined) this.#dropTrails(pid);
      const facts = factsOf(entry, this.#options);
      const startedSeconds = entry.started / ticksPerSecond;
      this.#known.set(pid, { facts, startedSeconds, cpuTicks, atSeconds, cpuPercent: 'unknown' });
      return;
    }
    const span = atSeconds - before.atSeconds;
    // A shorter span than this is less than the kernel counts in.
    if (span < 0.2) return;
    before.cpuPercent = ((cpuTicks - before.cpuTicks) / ticksPerSecond / span) * 100;
    before.cpuTicks = cpuTicks;
    before.atSeconds = atSeconds;
  }
}
