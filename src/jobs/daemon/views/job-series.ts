import type { JobHistory } from '../types.js';

/** Enough for a chart as wide as a screen. */
const maxPoints = 1000;

/** The memory of a job over time. A full series merges neighbours and keeps the larger value. */
export class JobSeries {
  #epochMs: number[];
  #usedBytes: (number | null)[];
  /** Of how many readings a point is made. */
  #step = 1;
  #taken = 0;

  constructor(before: JobHistory = { epochMs: [], usedBytes: [] }) {
    this.#epochMs = before.epochMs.slice(-maxPoints);
    this.#usedBytes = before.usedBytes.slice(-maxPoints);
  }

  add(epochMs: number, usedBytes: number | null): void {
    if (this.#taken % this.#step === 0) {
      this.#epochMs.push(epochMs);
      this.#usedBytes.push(usedBytes);
    } else {
      const last = this.#usedBytes.length - 1;
      this.#usedBytes[last] = larger(this.#usedBytes[last] ?? null, usedBytes);
    }
    this.#taken++;
    if (this.#epochMs.length > maxPoints) this.#thin();
  }

  read(): JobHistory {
    return { epochMs: [...this.#epochMs], usedBytes: [...this.#usedBytes] };
  }

  #thin(): void {
    const used = this.#usedBytes;
    this.#usedBytes = used
      .filter((_, index) => index % 2 === 0)
      .map((value, index) => larger(value, used[index * 2 + 1] ?? null));
    this.#epochMs = this.#epochMs.filter((_, index) => index % 2 === 0);
    this.#step *= 2;
    this.#taken = 0;
  }
}

function larger(a: number | null, b: number | null): number | null {
  if (a === null || b === null) return a ?? b;
  return Math.max(a, b);
}
