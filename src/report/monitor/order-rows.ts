import type { ProcessRow } from './build-rows.js';
import { sortRows } from './sort-columns.js';
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

/** A family deeper than this is drawn no deeper: a line has room for few steps. */
const maxDepth = 12;

/**
 * Rows below their parents, brothers and sisters in the order given. A parent that is no row itself
 * but in `parents` comes before those below it.
 */
function treeRows(
  rows: readonly ProcessRow[],
  parents: readonly ProcessRow[],
): readonly ProcessRow[] {
  const listed = new Set(rows.map(({ pid }) => pid));
  const above = new Map(parents.map((parent) => [parent.pid, parent]));
  const shown: ProcessRow[] = [...rows];
  // Parents of what is shown, and theirs: each once, and none twice in a circle of pids.
  for (const row of shown) {
    const parent = above.get(row.parent);
    if (parent === undefined || listed.has(parent.pid)) continue;
    listed.add(parent.pid);
    shown.push(parent);
  }
  const children = new Map<number, ProcessRow[]>();
  const roots: ProcessRow[] = [];
  for (const row of shown) {
    if (!listed.has(row.parent) || row.parent === row.pid) roots.push(row);
    else children.set(row.parent, [...(children.get(row.parent) ?? []), row]);
  }
  const result: ProcessRow[] = [];
  const drawn = new Set<number>();
  const add = (row: ProcessRow, branch: string, below: string, depth: number): void => {
    result.push({ ...row, branch });
    // A process on two GPUs has two rows, and its children stand below the first.
    if (drawn.has(row.pid)) return;
    drawn.add(row.pid);
    const own = children.get(row.pid) ?? [];
    own.forEach((child, index) => {
      const last = index === own.length - 1;
      const deeper = depth < maxDepth ? `${below}${last ? '   ' : '│  '}` : below;
      add(child, `${below}${last ? '└─ ' : '├─ '}`, deeper, depth + 1);
    });
  };
  for (const root of roots) add(root, '', '', 0);
  // A circle of parents has no root; its members are shown all the same.
  for (const row of shown) if (!drawn.has(row.pid)) add(row, '', '', 0);
  return result;
}
