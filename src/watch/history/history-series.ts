import type { Column, Series } from '../types.js';
import { type Band, columns, emptyBand, type HistoryLevel, mergeBand } from './history-level.js';

/**
 * Buckets that overlap the range; one that straddles an edge of it counts as a whole. The times
 * of the answer are the same for every column.
 */
export function readSeries(
  levels: readonly HistoryLevel[],
  column: Column,
  range: { from: number; to: number; maxPoints: number },
): Series {
  const parts = levels.map((level) => ({
    level,
    begin: countBefore(level, (index) => level.lastSeconds(index) < range.from),
    end: countBefore(level, (index) => level.firstSeconds(index) <= range.to),
  }));
  const filled = parts.filter(({ begin, end }) => begin < end);
  const oldest = filled[0];
  const newest = filled.at(-1);
  const buckets = filled.reduce((sum, { begin, end }) => sum + end - begin, 0);
  const size = Math.min(buckets, range.maxPoints);
  const result = new SeriesBuilder(size);
  if (!oldest || !newest) return result.finish();
  // When there are too many, all that begin within one of `maxPoints` equal stretches of time
  // become one; when not, only those that begin at the same instant do, so that times rise.
  const start = oldest.level.firstSeconds(oldest.begin);
  const span = newest.level.firstSeconds(newest.end - 1) - start;
  const joins = buckets > range.maxPoints && span > 0;
  const place = columns.indexOf(column);
  const band = emptyBand();
  for (const { level, begin, end } of filled) {
    for (let index = begin; index < end; index++) {
      const at = level.firstSeconds(index);
      level.read(index, place, band);
      const cell = Math.min(size - 1, Math.floor(((at - start) / span) * size));
      result.add(joins ? cell : at, at, band);
    }
  }
  return result.finish();
}

/** How many buckets from the oldest on satisfy `before`, which holds for a first part of them. */
function countBefore(level: HistoryLevel, before: (index: number) => boolean): number {
  let low = 0;
  let high = level.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (before(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Joins consecutive buckets of the same cell. */
class SeriesBuilder {
  readonly #series: Series;
  readonly #band = emptyBand();
  #length = 0;
  #cell = Number.NaN;

  constructor(size: number) {
    this.#series = {
      seconds: new Float64Array(size),
      min: new Float64Array(size),
      mean: new Float64Array(size),
      max: new Float64Array(size),
    };
  }

  add(cell: number, atSeconds: number, band: Band): void {
    if (cell !== this.#cell) {
      this.#flush();
      this.#cell = cell;
      this.#series.seconds[this.#length++] = atSeconds;
    }
    mergeBand(this.#band, band);
  }

  finish(): Series {
    this.#flush();
    const { seconds, min, mean, max } = this.#series;
    const cut = (array: Float64Array): Float64Array => array.slice(0, this.#length);
    return { seconds: cut(seconds), min: cut(min), mean: cut(mean), max: cut(max) };
  }

  #flush(): void {
    if (this.#length === 0) return;
    this.#series.min[this.#length - 1] = this.#band.min;
    this.#series.mean[this.#length - 1] = this.#band.mean;
    this.#series.max[this.#length - 1] = this.#band.max;
    Object.assign(this.#band, emptyBand());
  }
}
