import type { ProcessRow } from './process-row.js';
import type { MonitorView } from './view.js';

/** Selects the row at a place, or the nearest there is. */
export function selectRow(
  view: MonitorView,
  rows: readonly ProcessRow[],
  index: number,
): MonitorView {
  const row = rows[Math.min(rows.length - 1, Math.max(0, index))];
  return { ...view, selected: row?.key };
}

/** Moves the selection; the first move selects the first row in sight. */
export function moveSelection(
  view: MonitorView,
  rows: readonly ProcessRow[],
  by: number,
): MonitorView {
  const at = rows.findIndex(({ key }) => key === view.selected);
  return selectRow(view, rows, at === -1 ? view.first : at + by);
}

/** The first row to draw, so that the selected one is in sight and no room is left unused. */
export function firstInSight(
  view: Pick<MonitorView, 'first' | 'selected'>,
  rows: readonly ProcessRow[],
  height: number,
): number {
  const at = rows.findIndex(({ key }) => key === view.selected);
  let first = view.first;
  if (at !== -1) first = Math.min(at, Math.max(first, at - height + 1));
  return Math.max(0, Math.min(first, rows.length - height));
}
