import type { Known } from '../units/known.js';
import type { Column, History, Series } from '../watch/types.js';
import type { Band, ReportSeries } from './report-shape.js';

/** Enough for a chart wider than most screens, and small enough to read in an editor. */
const maxSeriesPoints = 1000;

/** The history of a device as plain arrays that JSON can hold. */
export function reportSeries(history: History): ReportSeries {
  const used = history.series('used', { maxPoints: maxSeriesPoints });
  const along = (column: Column): Band | undefined =>
    bandAlong(used.seconds, history.series(column, { maxPoints: maxSeriesPoints }));
  const allocated = along('allocated');
  const reserved = along('reserved');
  const compute = along('utilization');
  return {
    seconds: Array.from(used.seconds, (second) => Math.round(second * 1000) / 1000),
    usedBytes: band(used, (index) => index),
    ...(allocated && { allocatedBytes: allocated }),
    ...(reserved && { reservedBytes: reserved }),
    ...(compute && { utilizationPercent: compute }),
  };
}

/** Another column at the same buckets; undefined when nothing was ever reported in it. */
function bandAlong(seconds: Float64Array, series: Series): Band | undefined {
  if (series.mean.every((value) => Number.isNaN(value))) return undefined;
  // Columns are thinned alike, but nothing promises it: take the bucket each instant falls in.
  const places = new Int32Array(seconds.length);
  let place = -1;
  for (let index = 0; index < seconds.length; index++) {
    const at = seconds[index] ?? 0;
    while ((series.seconds[place + 1] ?? Infinity) <= at) place++;
    places[index] = place;
  }
  return band(series, (index) => places[index] ?? -1, seconds.length);
}

function band(
  series: Series,
  place: (index: number) => number,
  length = series.seconds.length,
): Band {
  const column = (values: Float64Array): Known<number>[] =>
    Array.from({ length }, (_, index) => whole(values[place(index)]));
  return { min: column(series.min), mean: column(series.mean), max: column(series.max) };
}

function whole(value: number | undefined): Known<number> {
  return value === undefined || !Number.isFinite(value) ? 'unknown' : Math.round(value);
}
