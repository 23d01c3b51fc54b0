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
export function sortRows(
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
