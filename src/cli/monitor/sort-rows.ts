import { isKnown } from '../../units/known.js';
import type { ProcessRow } from './build-rows.js';

export const sortColumns = [
  'pid',
  'user',
  'device',
  'memory',
  'growth',
  'host',
  'cpu',
  'time',
  'job',
  'command',
] as const;
export type SortColumn = (typeof sortColumns)[number];

/** The letter after `o`, those of nvitop where it has the column; and whether the largest is first. */
export const sortLetters: Readonly<
  Record<SortColumn, { readonly letter: string; readonly descends: boolean }>
> = {
  pid: { letter: 'p', descends: false },
  user: { letter: 'u', descends: false },
  device: { letter: 'n', descends: false },
  memory: { letter: 'g', descends: true },
  growth: { letter: 'w', descends: true },
  host: { letter: 'm', descends: true },
  cpu: { letter: 'c', descends: true },
  time: { letter: 't', descends: true },
  job: { letter: 'j', descends: false },
  command: { letter: 'l', descends: false },
};

/** A row's value in a column; what is not known has none, and stands at the end either way. */
function valueOf(row: ProcessRow, column: SortColumn): number | string | undefined {
  switch (column) {
    case 'pid':
      return row.pid;
    case 'user':
      return known(row.user);
    case 'device':
      return row.deviceId;
    case 'memory':
      return known(row.usedBytes);
    case 'growth':
      return known(row.growth);
    case 'host':
      return known(row.hostBytes);
    case 'cpu':
      return known(row.cpuPercent);
    case 'time':
      return known(row.ageSeconds);
    case 'job':
      return known(row.job);
    case 'command':
    default:
      return row.command;
  }
}

function known<T extends number | string>(value: T | 'unknown' | 'none'): T | undefined {
  return value === 'none' || !isKnown(value) ? undefined : value;
}

/** Rows in the order of a column; equal ones by pid, so that lines do not jump. */
function sortRows(
  rows: readonly ProcessRow[],
  column: SortColumn,
  descending: boolean,
): readonly ProcessRow[] {
  const sign = descending ? -1 : 1;
  return rows
    .map((row) => ({ row, value: valueOf(row, column) }))
    .toSorted((one, other) => {
      if (one.value === undefined || other.value === undefined) {
        const lacking = Number(one.value === undefined) - Number(other.value === undefined);
        return lacking || one.row.pid - other.row.pid;
      }
      const order =
        typeof one.value === 'number' && typeof other.value === 'number'
          ? one.value - other.value
          : compare(String(one.value), String(other.value));
      return sign * order || one.row.pid - other.row.pid;
    })
    .map(({ row }) => row);
}

function compare(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}

/** Returns the rows that a view shows, in its order. A tree draws `parents` above the processes they started. */
export function orderRows(
  rows: readonly ProcessRow[],
  parents: readonly ProcessRow[],
  view: {
    readonly sort: SortColumn;
    readonly descending: boolean;
    readonly tree: boolean;
    readonly filter: string;
  },
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
