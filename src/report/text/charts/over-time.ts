import type { Series } from '../../../watch/types.js';

/**
 * A series at even steps of time, for drawings whose cells are all as long: the peak of each cell.
 * A bucket that is longer than a cell fills the cells it covers; before the first and after the
 * last there is NaN.
 */
export function overTime(
  series: Series,
  range: { readonly fromSeconds: number; readonly toSeconds: number },
  cells: number,
): number[] {
  const values = Array.from({ length: cells }, () => Number.NaN);
  const step = (range.toSeconds - range.fromSeconds) / cells;
  const { seconds, max } = series;
  for (let index = 0; index < seconds.length; index++) {
    const from = seconds[index] ?? 0;
    const to = seconds[index + 1] ?? from;
    const value = max[index] ?? Number.NaN;
    if (Number.isNaN(value) || to < range.fromSeconds || from > range.toSeconds) continue;
    const first = clamp(Math.floor((from - range.fromSeconds) / step), cells);
    const last = clamp(Math.ceil((to - range.fromSeconds) / step) - 1, cells);
    for (let cell = first; cell <= Math.max(first, last); cell++) {
      const before = values[cell] ?? Number.NaN;
      values[cell] = Number.isNaN(before) ? value : Math.max(before, value);
    }
  }
  return values;
}

function clamp(cell: number, cells: number): number {
  return Math.min(cells - 1, Math.max(0, cell));
}
