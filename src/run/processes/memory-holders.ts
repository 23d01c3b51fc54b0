import type { Known } from '../../units/known.js';
import type { MemoryHolder, MemoryHolders } from '../types.js';

/** As many as a person reads at the end of a run. */
const named = 5;
/**
 * Memory that ran out is often given back before the last process has ended: a parent waits for its
 * workers, a launcher for the other ranks. Of so many seconds the reading with the most memory counts.
 */
const recentSeconds = 30;

/** Bytes of a process at its reading. */
export interface ProcessBytes {
  readonly pid: number;
  readonly bytes: number;
}

export function sumBytes(processes: readonly ProcessBytes[]): number {
  return processes.reduce((sum, { bytes }) => sum + bytes, 0);
}

/** Remembers the largest processes of an attempt while it runs, to name them when memory runs out. */
export class HolderBook {
  readonly #commandOf: (pid: number) => Known<string>;
  #recent: MemoryHolders[] = [];

  constructor(commandOf: (pid: number) => Known<string>) {
    this.#commandOf = commandOf;
  }

  /** One reading; `othersBytes` is what programs outside of the run hold of the same device. */
  add(
    atSeconds: number,
    processes: readonly ProcessBytes[],
    othersBytes: Known<number> = 'unknown',
  ): void {
    if (processes.length === 0) return;
    const totalBytes = sumBytes(processes);
    const isRecent = (one: MemoryHolders) => atSeconds - one.atSeconds <= recentSeconds;
    // One that is older and not larger can never be the largest again.
    this.#recent = this.#recent.filter((one) => isRecent(one) && one.totalBytes > totalBytes);
    this.#recent.push({
      atSeconds: Math.round(atSeconds * 100) / 100,
      totalBytes,
      othersBytes,
      processes: this.#largest(processes),
    });
  }

  /** The reading with the most memory shortly before the last one; undefined where there is none. */
  get holders(): MemoryHolders | undefined {
    return this.#recent[0];
  }

  #largest(processes: readonly ProcessBytes[]): readonly MemoryHolder[] {
    return processes
      .toSorted((a, b) => b.bytes - a.bytes)
      .slice(0, named)
      .map(({ pid, bytes }) => ({ pid, bytes, command: this.#commandOf(pid) }));
  }
}
