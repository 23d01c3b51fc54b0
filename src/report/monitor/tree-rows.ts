import type { ProcessRow } from './process-row.js';

/** A family deeper than this is drawn no deeper: a line has room for few steps. */
const maxDepth = 12;

/**
 * Rows below their parents, brothers and sisters in the order given. A parent that is no row itself
 * but in `parents` comes before those below it.
 */
export function treeRows(
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
