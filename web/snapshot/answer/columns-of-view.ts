import type { Recording } from '../data/recording.js';
import type { AxisKind } from '../data/time-axis.js';

/** A stretch of the horizontal axis: seconds, or ticks. */
export interface AxisRange {
  readonly axis: AxisKind;
  readonly from: number;
  readonly to: number;
}

/** Which instant each column of pixels shows, and in which columns something is seen. */
export interface ViewColumns {
  /** The tick that each column shows: that with the most allocated in it, so that no peak is lost. */
  readonly sample: Uint32Array;
  /** The tick that each column begins with, and that the last one ends with. */
  readonly begin: Uint32Array;
  /** The columns, first and after the last, that show a life of these ticks. */
  stretch(from: number, to: number): readonly [number, number];
}

/** One table for all views of a recording: it may be as long as the recording. */
const tables = new WeakMap<Recording, Uint16Array>();

export function columnsOf(recording: Recording, range: AxisRange, width: number): ViewColumns {
  const { header, level, time } = recording;
  const last = header.ticks - 1;
  const tickAt = (share: number) => {
    const value = range.from + share * (range.to - range.from);
    const tick = range.axis === 'time' ? time.tickAt(value) : Math.floor(value);
    return Math.min(last, Math.max(0, tick));
  };
  const sample = new Uint32Array(width);
  const begins = Uint32Array.from({ length: width + 1 }, (_, x) => tickAt(x / width));
  for (let x = 0; x < width; x += 1) {
    const begin = begins[x] ?? 0;
    // On a linear axis of time the last tick of a column is still in it.
    const end = (begins[x + 1] ?? 0) + (range.axis === 'time' ? 1 : 0);
    let best = begin;
    for (let tick = begin + 1; tick < end; tick += 1) {
      if ((level[tick] ?? 0) > (level[best] ?? 0)) best = tick;
    }
    sample[x] = best;
  }
  const table = tables.get(recording) ?? new Uint16Array(header.ticks + 2);
  tables.set(recording, table);
  const [start, end] = [sample[0] ?? 0, sample[width - 1] ?? 0];
  for (let tick = start, x = 0; tick <= end + 1; tick += 1) {
    while (x < width && (sample[x] ?? 0) < tick) x += 1;
    table[tick] = x;
  }
  return {
    sample,
    begin: begins,
    stretch(from, to) {
      const first = from <= start ? 0 : from > end ? width : (table[from] ?? width);
      const after = to <= start ? 0 : to > end ? width : (table[to] ?? width);
      return [first, after];
    },
  };
}
