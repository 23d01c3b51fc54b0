import { checkOptions, whole } from '../../units/arguments.js';
import { isKnown, type Known } from '../../units/known.js';
import type { Column, History, Sample, Series, Statistics, Trend } from '../types.js';
import { type Band, columns, emptyBand, type HistoryLevel, mergeBand } from './history-level.js';
import { Thinning, type ThinningSizes } from './thinning.js';

const defaultPoints = 2000;
const defaultTrendSeconds = 60;
/** Means over this many stretches of the window; every pair of them is compared. */
const trendPoints = 32;
/** A change below this share of the capacity over the window is not worth a word. */
const trendFloorShare = 0.001;

const sizeRules = { samples: whole(1), buckets: whole(2), coarserLevels: whole(0), fold: whole(2) };

/**
 * What a device's memory did: every sample of about the last hour at 10 Hz, older ones thinned
 * into buckets that keep their min and max. It takes less than 5 MB however long it runs.
 *
 * @example
 * const history = createHistory();
 * history.add(sample);
 * history.series('used', { fromSeconds: 0, maxPoints: 500 }).max;
 */
export function createHistory(sizes?: ThinningSizes): History {
  checkOptions('createHistory', sizes ?? {}, sizeRules);
  const thinning = new Thinning(sizes);
  const statistics = new RunningStatistics();
  const values: number[] = [Number.NaN, Number.NaN, Number.NaN, Number.NaN];
  let lastSeconds = Number.NEGATIVE_INFINITY;
  let floor = 0;

  const series: History['series'] = (column, range = {}) =>
    readSeries(thinning.levels, column, {
      from: range.fromSeconds ?? Number.NEGATIVE_INFINITY,
      to: range.toSeconds ?? Number.POSITIVE_INFINITY,
      maxPoints: Math.max(1, Math.floor(range.maxPoints ?? defaultPoints)),
    });

  return {
    add(sample: Sample) {
      // A sample dated before the one it follows is taken at that one's time: times never fall.
      lastSeconds = Math.max(lastSeconds, sample.atSeconds);
      values[0] = isKnown(sample.usedBytes) ? sample.usedBytes : Number.NaN;
      values[1] = sample.allocator?.allocatedBytes ?? Number.NaN;
      values[2] = sample.allocator?.reservedBytes ?? Number.NaN;
      values[3] = isKnown(sample.utilizationPercent) ? sample.utilizationPercent : Number.NaN;
      thinning.add(lastSeconds, values);
      statistics.add(lastSeconds, sample.usedBytes, sample.totalBytes);
      if (isKnown(sample.totalBytes)) floor = sample.totalBytes * trendFloorShare;
    },
    statistics: () => statistics.read(),
    trend(windowSeconds = defaultTrendSeconds) {
      const fromSeconds = lastSeconds - windowSeconds;
      const { seconds, mean } = series('used', { fromSeconds, maxPoints: trendPoints });
      return seconds.length < leastTrendPoints ? 'unknown' : trendOf(seconds, mean, floor);
    },
    series,
    get footprintBytes() {
      return thinning.footprintBytes;
    },
  };
}

/** Figures over every sample ever added, in constant memory. */
class RunningStatistics {
  #samples = 0;
  #used = 0;
  #min = Number.POSITIVE_INFINITY;
  #max = Number.NEGATIVE_INFINITY;
  #maxAtSeconds = 0;
  /** Running means: a sum of bytes over a week would leave the integers a double can hold. */
  #mean = 0;
  #percents = 0;
  #meanPercent = 0;
  #maxPercent = 0;

  add(atSeconds: number, usedBytes: Known<number>, totalBytes: Known<number>): void {
    this.#samples++;
    if (!isKnown(usedBytes)) return;
    this.#used++;
    this.#mean += (usedBytes - this.#mean) / this.#used;
    if (usedBytes < this.#min) this.#min = usedBytes;
    if (usedBytes > this.#max) {
      this.#max = usedBytes;
      this.#maxAtSeconds = atSeconds;
    }
    if (!isKnown(totalBytes) || totalBytes <= 0) return;
    const percent = (100 * usedBytes) / totalBytes;
    this.#percents++;
    this.#meanPercent += (percent - this.#meanPercent) / this.#percents;
    this.#maxPercent = Math.max(this.#maxPercent, percent);
  }

  read(): Statistics {
    const ifUsed = (value: number): Known<number> => (this.#used > 0 ? value : 'unknown');
    const ifPercent = (value: number): Known<number> => (this.#percents > 0 ? value : 'unknown');
    return {
      samples: this.#samples,
      minUsedBytes: ifUsed(this.#min),
      meanUsedBytes: ifUsed(Math.round(this.#mean)),
      maxUsedBytes: ifUsed(this.#max),
      maxAtSeconds: ifUsed(this.#maxAtSeconds),
      meanUsedPercent: ifPercent(this.#meanPercent),
      maxUsedPercent: ifPercent(this.#maxPercent),
    };
  }
}

/**
 * Buckets that overlap the range; one that straddles an edge of it counts as a whole. The times
 * of the answer are the same for every column.
 */
function readSeries(
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

/** With fewer points than this any direction could be chance. */
const leastTrendPoints = 8;
/**
 * The change along the line must be this many times the scatter around it. For 32 points of
 * independent noise the change strays by 0.6 of the scatter, so chance alone stays below.
 */
const scatterFactor = 2.5;
/** Makes the median of distances comparable with a standard deviation of normal noise. */
const normalScale = 1.4826;

/**
 * The direction of a short series: the median slope between all pairs of points (Theil-Sen), so
 * that a spike does not turn it, counted only when the change it makes over the whole stretch is
 * large against the scatter around it and against `floor`, the least change worth telling. Points
 * that are NaN are left out. Meant for some dozens of points: it looks at every pair.
 *
 * @example
 * trendOf(seconds, bytes, 64 * MiB); // 'increasing'
 */
export function trendOf(
  seconds: ArrayLike<number>,
  values: ArrayLike<number>,
  floor: number,
): Trend {
  const points: { at: number; value: number }[] = [];
  for (let index = 0; index < values.length; index++) {
    const at = seconds[index] ?? Number.NaN;
    const value = values[index] ?? Number.NaN;
    if (!Number.isNaN(value)) points.push({ at, value });
  }
  const first = points[0];
  const last = points.at(-1);
  if (points.length < leastTrendPoints || !first || !last || last.at <= first.at) return 'unknown';
  const slope = median(slopesOf(points));
  const level = median(Float64Array.from(points, ({ at, value }) => value - slope * at));
  const scatter =
    normalScale *
    median(Float64Array.from(points, ({ at, value }) => Math.abs(value - level - slope * at)));
  const change = slope * (last.at - first.at);
  if (Math.abs(change) <= Math.max(floor, scatterFactor * scatter)) return 'stable';
  return change > 0 ? 'increasing' : 'decreasing';
}

/** Of every pair of points. */
function slopesOf(
  points: readonly { readonly at: number; readonly value: number }[],
): Float64Array {
  const slopes = new Float64Array((points.length * (points.length - 1)) / 2);
  let filled = 0;
  for (const [index, a] of points.entries()) {
    for (let later = index + 1; later < points.length; later++) {
      const b = points[later] ?? a;
      slopes[filled++] = (b.value - a.value) / (b.at - a.at);
    }
  }
  return slopes;
}

/** Numbers alone sort many times faster than with a comparison. */
function median(values: Float64Array): number {
  const sorted = values.toSorted();
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2;
}
