/** Extremes of a series within one stretch of time, with the times at which they were seen. */
export interface Cell {
  readonly firstSeconds: number;
  readonly lastSeconds: number;
  readonly min: number;
  readonly minSeconds: number;
  readonly max: number;
  readonly maxSeconds: number;
}

/** Width of the finest cells: at 10 Hz a few readings fall into each. */
const finestSeconds = 0.25;
/** Each level is twice as coarse as the one below; 16 of them reach back three days. */
const levelCount = 16;
/** Cells kept on each level. Enough for a slope and its spread, few enough to stay cheap. */
export const cellsPerLevel = 32;

const fields = 6;
const widths = Float64Array.from({ length: levelCount }, (_, level) => finestSeconds * 2 ** level);

/** Width of the cells of a level. */
export function cellSeconds(level: number): number {
  return widths[level] ?? Number.POSITIVE_INFINITY;
}

/**
 * The recent past of a series at every scale at once, in constant memory: level k holds the last
 * 32 cells of 0.25 x 2^k seconds. A late, fast growth shows on the fine levels, a slow leak on the
 * coarse ones, and on a level whose cells are longer than a work cycle the cell maxima are the
 * upper envelope of the sawtooth. Each reading passes through here: nothing is allocated for it.
 */
export class Cells {
  readonly #data = new Float64Array(levelCount * cellsPerLevel * fields);
  readonly #counts = new Float64Array(levelCount);
  readonly #indexes = new Float64Array(levelCount).fill(Number.NaN);

  add(seconds: number, value: number): void {
    const data = this.#data;
    for (let level = 0; level < levelCount; level++) {
      const index = Math.floor(seconds / cellSeconds(level));
      if (index !== this.#indexes[level]) {
        this.#indexes[level] = index;
        this.#counts[level] = (this.#counts[level] ?? 0) + 1;
        const at = this.#offset(level, 0);
        data[at] = seconds;
        data[at + 1] = seconds;
        data[at + 2] = value;
        data[at + 3] = seconds;
        data[at + 4] = value;
        data[at + 5] = seconds;
        continue;
      }
      const at = this.#offset(level, 0);
      data[at + 1] = seconds;
      if (value < (data[at + 2] ?? value)) {
        data[at + 2] = value;
        data[at + 3] = seconds;
      }
      if (value >= (data[at + 4] ?? value)) {
        data[at + 4] = value;
        data[at + 5] = seconds;
      }
    }
  }

  /** How many cells a level has. */
  count(level: number): number {
    return Math.min(this.#counts[level] ?? 0, cellsPerLevel);
  }

  /** How many cells a level ever had: it rises when a new one begins. */
  begun(level: number): number {
    return this.#counts[level] ?? 0;
  }

  /** Whether the last finished cell of a level holds one reading only. */
  isSingle(level: number): boolean {
    if (this.count(level) < 2) return false;
    const at = this.#offset(level, 1);
    return this.#data[at] === this.#data[at + 1];
  }

  /** The minimum or maximum of the cell that is `back` cells before the one still filling. */
  extreme(level: number, back: number, which: 'min' | 'max'): number {
    return this.#data[this.#offset(level, back) + (which === 'min' ? 2 : 4)] ?? Number.NaN;
  }

  /**
   * Writes the extremes of a level and their times, oldest first, without those from before a
   * time; answers how many they are. A cell that has just begun may not have seen the floor that
   * work returns to: `whole` leaves it out.
   */
  copyExtremes(
    level: number,
    which: 'min' | 'max',
    fromSeconds: number,
    into: { readonly seconds: Float64Array; readonly bytes: Float64Array },
    whole = false,
  ): number {
    const field = which === 'min' ? 2 : 4;
    const last = whole && this.#hasJustBegun(level) ? 1 : 0;
    let n = 0;
    for (let back = this.count(level) - 1; back >= last; back--) {
      const at = this.#offset(level, back) + field;
      const seconds = this.#data[at + 1] ?? 0;
      if (seconds < fromSeconds) continue;
      into.seconds[n] = seconds;
      into.bytes[n] = this.#data[at] ?? 0;
      n++;
    }
    return n;
  }

  /** The highest minimum of any cell that ended before a time, as far back as cells are kept. */
  highestFloorBefore(seconds: number): number {
    let highest = Number.NEGATIVE_INFINITY;
    const used = this.usedLevels;
    for (let level = 0; level < used; level++) {
      for (let back = this.count(level) - 1; back >= 0; back--) {
        const at = this.#offset(level, back);
        if ((this.#data[at + 1] ?? 0) >= seconds) break;
        highest = Math.max(highest, this.#data[at + 2] ?? highest);
      }
    }
    return highest;
  }

  /** The highest value of the cells of a level that were filled at a time or later. */
  highestSince(level: number, seconds: number): number {
    let highest = 0;
    for (let back = 0; back < this.count(level); back++) {
      const at = this.#offset(level, back);
      if ((this.#data[at + 1] ?? 0) < seconds) break;
      highest = Math.max(highest, this.#data[at + 4] ?? 0);
    }
    return highest;
  }

  /** The cells of a level, oldest first; the last one is still filling. */
  level(level: number): Cell[] {
    const cells: Cell[] = [];
    for (let back = this.count(level) - 1; back >= 0; back--) cells.push(this.#cell(level, back));
    return cells;
  }

  /** All levels with more than one cell, finest first, without the cells from before a time. */
  levels(fromSeconds = Number.NEGATIVE_INFINITY): Cell[][] {
    return Array.from({ length: this.usedLevels }, (_, level) =>
      this.level(level).filter((cell) => cell.firstSeconds >= fromSeconds),
    );
  }

  /** Levels worth looking at: those with more than one cell. */
  get usedLevels(): number {
    let used = 0;
    while (used < levelCount && (this.#counts[used] ?? 0) > 1) used++;
    return used;
  }

  #hasJustBegun(level: number): boolean {
    const at = this.#offset(level, 0);
    const filled = (this.#data[at + 1] ?? 0) - (this.#data[at] ?? 0);
    return filled < cellSeconds(level) / 2 && !this.isSingle(level);
  }

  #cell(level: number, back: number): Cell {
    const at = this.#offset(level, back);
    return {
      firstSeconds: this.#data[at] ?? 0,
      lastSeconds: this.#data[at + 1] ?? 0,
      min: this.#data[at + 2] ?? 0,
      minSeconds: this.#data[at + 3] ?? 0,
      max: this.#data[at + 4] ?? 0,
      maxSeconds: this.#data[at + 5] ?? 0,
    };
  }

  #offset(level: number, back: number): number {
    const slot = ((this.#counts[level] ?? 0) - 1 - back) % cellsPerLevel;
    return (level * cellsPerLevel + slot) * fields;
  }
}
