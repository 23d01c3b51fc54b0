import { isKnown } from '../../units/known.js';
import type { History, Sample } from '../types.js';
import { readSeries } from './history-series.js';
import { RunningStatistics } from './statistics.js';
import { Thinning, type ThinningSizes } from './thinning.js';
import { leastTrendPoints, trendOf } from './trend.js';

const defaultPoints = 2000;
const defaultTrendSeconds = 60;
/** Means over this many stretches of the window; every pair of them is compared. */
const trendPoints = 32;
/** A change below this share of the capacity over the window is not worth a word. */
const trendFloorShare = 0.001;

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
