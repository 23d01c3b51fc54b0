import { formatBytes } from '../../../units/bytes.js';
import { isKnown } from '../../../units/known.js';
import type { ProcessRow } from '../../monitor/process-row.js';
import type { SortColumn } from '../../monitor/sort-columns.js';
import type { Paint } from '../spans.js';
import { cleanText } from '../text-width.js';

/** A column of the table of processes. */
export interface ProcessColumn {
  readonly title: string;
  /** What a click on its title sorts by. */
  readonly sort: SortColumn;
  readonly width: number;
  readonly side: 'left' | 'right';
  readonly text: (row: ProcessRow) => string;
  readonly paint?: (row: ProcessRow) => Paint | undefined;
}

/** Memory over time; it is drawn, not written. */
export const trailTitle = 'OVER TIME';

const leastCommand = 14;
const widestTrail = 40;
const leastTrail = 9;

const fixed: Readonly<Record<string, ProcessColumn>> = {
  pid: { title: 'PID', sort: 'pid', width: 7, side: 'right', text: ({ pid }) => String(pid) },
  user: { title: 'USER', sort: 'user', width: 8, side: 'left', text: ({ user }) => user },
  device: {
    title: 'DEVICE',
    sort: 'device',
    width: 7,
    side: 'left',
    text: ({ deviceId }) => deviceId,
  },
  memory: {
    title: 'MEMORY',
    sort: 'memory',
    width: 9,
    side: 'right',
    text: ({ usedBytes }) => bytes(usedBytes),
  },
  share: {
    title: '%',
    sort: 'memory',
    width: 4,
    side: 'right',
    text: ({ sharePercent }) =>
      sharePercent === 'none' || !isKnown(sharePercent) ? '' : String(Math.round(sharePercent)),
  },
  growth: {
    title: 'GROWS/S',
    sort: 'growth',
    width: 9,
    side: 'right',
    text: ({ growth }) => (growth === 'none' ? '' : bytes(growth)),
    paint: () => 'yellow',
  },
  host: {
    title: 'HOST',
    sort: 'host',
    width: 9,
    side: 'right',
    text: ({ hostBytes }) => bytes(hostBytes),
  },
  cpu: {
    title: 'CPU%',
    sort: 'cpu',
    width: 5,
    side: 'right',
    text: ({ cpuPercent }) => (isKnown(cpuPercent) ? cpuPercent.toFixed(0) : '?'),
  },
  time: {
    title: 'TIME',
    sort: 'time',
    width: 8,
    side: 'right',
    text: ({ ageSeconds }) => (isKnown(ageSeconds) ? clockWords(ageSeconds) : '?'),
  },
  job: {
    title: 'JOB',
    sort: 'job',
    width: 12,
    side: 'left',
    text: ({ job }) => (job === 'none' ? '' : isKnown(job) ? job : '?'),
  },
};

function bytes(value: ProcessRow['usedBytes']): string {
  return value === 'none' ? '' : isKnown(value) ? formatBytes(Math.round(value)) : '?';
}

function two(value: number): string {
  return String(value).padStart(2, '0');
}

/** `12:04`, `3:12:04`, `2d 3h`: as `ps` tells it. */
function clockWords(seconds: number): string {
  const whole = Math.floor(seconds);
  const [days, hours] = [Math.floor(whole / 86_400), Math.floor(whole / 3600) % 24];
  if (days > 0) return `${days}d ${hours}h`;
  const minutes = Math.floor(whole / 60) % 60;
  return `${hours > 0 ? `${hours}:${two(minutes)}` : minutes}:${two(whole % 60)}`;
}

export interface ColumnPlan {
  readonly columns: readonly ProcessColumn[];
  /** Cells of the drawing of memory over time; 0 where there is no room. */
  readonly trail: number;
  readonly command: number;
}

/** In the order in which they are given up, last first. */
const wanted = ['pid', 'memory', 'user', 'device', 'share', 'time', 'job', 'growth', 'cpu', 'host'];
/** In the order in which they stand. */
const standing = [
  'pid',
  'user',
  'device',
  'memory',
  'share',
  'growth',
  'host',
  'cpu',
  'time',
  'job',
];

/** The columns that have room; the drawing and the command share what is left. */
export function planColumns(columns: number, rows: readonly ProcessRow[]): ColumnPlan {
  let left = columns - 2 - leastCommand;
  const kept = new Set<string>();
  for (const [rank, name] of wanted.entries()) {
    const column = fixed[name];
    // From the fifth on a column must leave room for the drawing, too.
    const spare = rank >= 4 ? leastTrail + 1 : 0;
    if (column === undefined || left - column.width - 1 < spare) continue;
    left -= column.width + 1;
    kept.add(name);
  }
  // Wide screens: names in full, before the drawing and the command take the rest.
  const userWidth = Math.min(
    20,
    widest(rows, ({ user }) => user),
  );
  const jobWidth = Math.min(
    26,
    widest(rows, ({ job }) => job),
  );
  const columnsKept = standing.flatMap((name) => {
    const column = kept.has(name) ? fixed[name] : undefined;
    if (column === undefined) return [];
    const ask = name === 'user' ? userWidth : name === 'job' ? jobWidth : column.width;
    const more = Math.max(0, Math.min(ask - column.width, Math.floor((left - leastTrail) / 4)));
    left -= more;
    return [{ ...column, width: column.width + more }];
  });
  const trail =
    left > leastTrail ? Math.min(widestTrail, Math.max(leastTrail, Math.floor(left / 3))) : 0;
  const command = leastCommand + left - (trail > 0 ? trail + 1 : 0);
  return { columns: columnsKept, trail, command: Math.max(1, command) };
}

function widest(rows: readonly ProcessRow[], text: (row: ProcessRow) => string): number {
  return rows.reduce((most, row) => Math.max(most, cleanText(text(row)).length), 0);
}
