import type { ChildProcess } from 'node:child_process';
import type { Clock } from '../../time/clock.js';
import { GiB, MiB } from '../../units/bytes.js';
import type { Known } from '../../units/known.js';
import type { ProcessReading } from '../device.js';
import { sortProcesses } from '../process-names.js';

/** The reads of /proc that the list makes; tests pass in their own. */
export interface ProcessFiles {
  listPids(): readonly number[];
  /** RSS: pages in RAM, shared ones in full. 0 when the process ended, or is a thread of the kernel. */
  residentBytes(pid: number): number;
  /** PSS: a page shared by n processes counts 1/n. The kernel walks all pages for it. */
  proportionalBytes(pid: number): Promise<number | undefined>;
  name(pid: number): Known<string>;
}

/** All processes are read this seldom; those below in each call. */
const scanSeconds = 10;
/** The largest at the last look, and those that grew the most: whatever matters is among them. */
const followedLargest = 16;
const followedGrowing = 8;
/** Each costly part of the work may take this share of the time: it waits until it has earned it. */
const timeShare = 0.001;

/** How many of the largest are measured exactly (PSS). */
const exactlyMeasured = 6;
/** Walking the pages takes some 10 ms for each GiB; beyond this, RSS must do. */
const exactLimitBytes = 8 * GiB;
/** An exact figure holds until the process changed by more than this. */
const exactHolds = { share: 0.05, bytes: 16 * MiB } as const;
/** A process that changed its size this much may have become another program. */
const nameHoldsShare = 0.25;

interface Entry {
  readonly pid: number;
  name: Known<string>;
  /** Its size when the name was read. */
  namedAtBytes: number;
  residentBytes: number;
  /** Bytes gained between the last two scans. */
  gainedBytes: number;
  scannedBytes: number;
  exact: { readonly bytes: number | undefined; readonly residentBytes: number } | undefined;
}

/**
 * The processes of the host, at little cost however often it is asked: in each call only the largest
 * and the fastest growing are read; new ones are looked for, and all are read, as seldom as keeps
 * that below a thousandth of the time. Between two exact readings a process counts as the last exact
 * figure and what its RSS changed by since.
 */
export class ProcessList {
  readonly #files: ProcessFiles;
  readonly #clock: Clock;
  readonly #entries = new Map<number, Entry>();
  #nextScan = Number.NEGATIVE_INFINITY;
  #nextList = Number.NEGATIVE_INFINITY;
  #nextExact = Number.NEGATIVE_INFINITY;

  constructor(files: ProcessFiles, clock: Clock) {
    this.#files = files;
    this.#clock = clock;
  }

  /** Largest first; `unknown` where none can be seen. */
  async read(): Promise<Known<readonly ProcessReading[]>> {
    const isFirst = this.#entries.size === 0;
    const now = this.#clock.seconds();
    if (now >= this.#nextScan) this.#scan(now);
    else {
      this.#refresh(this.#followed());
      if (now >= this.#nextList) this.#findNew(now);
    }
    await this.#measure(isFirst);
    if (this.#entries.size === 0) return 'unknown';
    return sortProcesses(
      Array.from(this.#entries.values(), (entry) => ({
        pid: entry.pid,
        name: entry.name,
        usedBytes: usedBytes(entry),
      })),
    );
  }

  #scan(now: number): void {
    const pids = this.#files.listPids();
    const there = new Set(pids);
    for (const pid of this.#entries.keys()) if (!there.has(pid)) this.#entries.delete(pid);
    this.#refresh(pids);
    for (const entry of this.#entries.values()) {
      entry.gainedBytes = entry.residentBytes - entry.scannedBytes;
      entry.scannedBytes = entry.residentBytes;
    }
    this.#nextList = this.#afterwards(now, 0);
    this.#nextScan = this.#afterwards(now, scanSeconds);
  }

  #findNew(now: number): void {
    this.#refresh(this.#files.listPids().filter((pid) => !this.#entries.has(pid)));
    this.#nextList = this.#afterwards(now, 0);
  }

  #refresh(pids: Iterable<number>): void {
    for (const pid of pids) {
      const residentBytes = this.#files.residentBytes(pid);
      const entry = this.#entries.get(pid);
      if (residentBytes === 0) this.#entries.delete(pid);
      else if (entry === undefined) this.#entries.set(pid, this.#newEntry(pid, residentBytes));
      else {
        entry.residentBytes = residentBytes;
        const changed = Math.abs(residentBytes - entry.namedAtBytes);
        if (changed > nameHoldsShare * entry.namedAtBytes) {
          entry.name = this.#files.name(pid);
          entry.namedAtBytes = residentBytes;
        }
      }
    }
  }

  #newEntry(pid: number, residentBytes: number): Entry {
    return {
      pid,
      name: this.#files.name(pid),
      namedAtBytes: residentBytes,
      residentBytes,
      gainedBytes: 0,
      scannedBytes: 0,
      exact: undefined,
    };
  }

  #followed(): ReadonlySet<number> {
    const largest = greatest(
      this.#entries.values(),
      followedLargest,
      ({ residentBytes }) => residentBytes,
    );
    const growing = greatest(
      this.#entries.values(),
      followedGrowing,
      ({ gainedBytes }) => gainedBytes,
    );
    const chosen = [...largest, ...growing.filter(({ gainedBytes }) => gainedBytes > 0)];
    return new Set(chosen.map(({ pid }) => pid));
  }

  /** At first all that are to be exact; later one at a time, when the time for it has been earned. */
  async #measure(isFirst: boolean): Promise<void> {
    const begin = this.#clock.seconds();
    if (!isFirst && begin < this.#nextExact) return;
    const stale = greatest(
      this.#entries.values(),
      exactlyMeasured,
      ({ residentBytes }) => residentBytes,
    ).filter((entry) => entry.residentBytes <= exactLimitBytes && isStale(entry));
    for (const entry of isFirst ? stale : stale.slice(0, 1)) {
      const { residentBytes } = entry;
      const bytes = await this.#files.proportionalBytes(entry.pid);
      entry.exact = { bytes, residentBytes };
    }
    this.#nextExact = this.#afterwards(begin, 0);
  }

  /** When work that began at `begin` may be done again. */
  #afterwards(begin: number, leastSeconds: number): number {
    const took = Math.max(0, this.#clock.seconds() - begin);
    return begin + Math.max(leastSeconds, took / timeShare);
  }
}

/** The few greatest of many, greatest first; of equal ones the first. Sorting them all would cost more. */
function greatest(
  entries: Iterable<Entry>,
  count: number,
  sizeOf: (entry: Entry) => number,
): Entry[] {
  const found: Entry[] = [];
  for (const entry of entries) {
    const size = sizeOf(entry);
    const least = found.at(-1);
    if (found.length === count && least !== undefined && size <= sizeOf(least)) continue;
    let at = found.length;
    while (at > 0 && sizeOf(found[at - 1] ?? entry) < size) at--;
    found.splice(at, 0, entry);
    if (found.length > count) found.pop();
  }
  return found;
}

function usedBytes({ residentBytes, exact }: Entry): number {
  if (exact?.bytes === undefined) return residentBytes;
  return Math.max(0, exact.bytes + residentBytes - exact.residentBytes);
}

function isStale({ residentBytes, exact }: Entry): boolean {
  if (exact === undefined) return true;
  const changed = Math.abs(residentBytes - exact.residentBytes);
  return changed > Math.max(exactHolds.bytes, exactHolds.share * exact.residentBytes);
}

/** Kills a child that leads a process group, with all that it started. */
export function killGroup(child: ChildProcess): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  try {
    if (process.platform === 'win32') child.kill('SIGKILL');
    else process.kill(-child.pid, 'SIGKILL');
  } catch {
    // It ended in this very moment.
  }
}
