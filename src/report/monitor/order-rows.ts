import type { ProcessRow } from './process-row.js';
import { sortRows } from './sort-columns.js';
import { treeRows } from './tree-rows.js';
import type { MonitorView } from './view.js';

/** The rows that a view shows, in its order. `parents` are drawn in a tree above those they started. */
export function orderRows(
  rows: readonly ProcessRow[],
  parents: readonly ProcessRow[],
  view: Pick<MonitorView, 'sort' | 'descending' | 'tree' | 'filter'>,
): readonly ProcessRow[] {
  const sorted = sortRows(
    rows.filter((row) => matches(row, view.filter)),
    view.sort,
    view.descending,
  );
  return view.tree ? treeRows(sorted, parents) : sorted;
}

/** Every word of the filter is somewhere in the row; capital letters do not matter. */
function matches(row: ProcessRow, filter: string): boolean {
  if (filter.trim() === '') return true;
  const { pid, user, command, job, deviceId, container } = row;
  const text = `${pid} ${user} ${deviceId} ${job} ${container} ${command}`.toLowerCase();
  return filter
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}
