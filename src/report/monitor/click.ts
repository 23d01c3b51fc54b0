import type { ScreenHits } from './hits.js';
import type { ProcessRow } from './process-row.js';
import { selectRow } from './selection.js';
import { sortLetters } from './sort-columns.js';
import type { MonitorView } from './view.js';

/** The mouse at a place of the screen, from 0. */
export interface MouseInput {
  readonly kind: 'click' | 'wheel-up' | 'wheel-down';
  readonly column: number;
  readonly row: number;
}

/** Rows that one turn of the wheel moves. */
const wheelRows = 3;

/** What the mouse does to the screen; on a page or in a question the wheel scrolls, a click does nothing. */
export function click(
  view: MonitorView,
  input: MouseInput,
  { rows, hits }: { readonly rows: readonly ProcessRow[]; readonly hits: ScreenHits },
): MonitorView {
  if (input.kind !== 'click') return wheel(view, input.kind === 'wheel-up' ? -1 : 1, rows);
  if (view.page !== 'main' || view.prompt !== undefined) return view;
  const title = hits.titles.find(({ from, to }) => input.column >= from && input.column < to);
  if (input.row === hits.titleRow && title !== undefined) {
    const again = view.sort === title.column;
    const descending = again ? !view.descending : sortLetters[title.column].descends;
    return { ...view, sort: title.column, descending };
  }
  const inTable = input.row - hits.titleRow - 1;
  if (hits.titleRow >= 0 && inTable >= 0 && inTable < hits.tableRows) {
    const index = hits.first + inTable;
    const row = rows[index];
    if (row === undefined) return view;
    if (row.key === view.selected) return { ...view, page: 'details', pageFirst: 0 };
    return selectRow(view, rows, index);
  }
  const device = hits.devices.find(
    ({ top, bottom, left, right }) =>
      input.row >= top && input.row < bottom && input.column >= left && input.column < right,
  );
  if (device === undefined) return view;
  return { ...view, scope: view.scope === device.id ? 'gpus' : device.id, first: 0 };
}

function wheel(view: MonitorView, sign: number, rows: readonly ProcessRow[]): MonitorView {
  if (view.page !== 'main') {
    return { ...view, pageFirst: Math.max(0, view.pageFirst + sign * wheelRows) };
  }
  if (view.prompt !== undefined) return view;
  const at = rows.findIndex(({ key }) => key === view.selected);
  // The selection moves along: a list that scrolls away from it would jump back at the next key.
  if (at !== -1) return selectRow(view, rows, at + sign * wheelRows);
  const first = Math.min(Math.max(0, rows.length - 1), Math.max(0, view.first + sign * wheelRows));
  return { ...view, first };
}
