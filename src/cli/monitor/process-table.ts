import { sparkRows } from '../../report/text/charts.js';
import { type Paint, type Span, span, spread, type TextStyle } from '../../report/text/spans.js';
import { cleanText, cutText, fitText, textWidth } from '../../report/text/text-width.js';
import { count } from '../../report/words.js';
import { formatBytes } from '../../units/bytes.js';
import { isKnown } from '../../units/known.js';
import type { ProcessRow } from './build-rows.js';
import type { SortColumn } from './sort-rows.js';
import { firstInSight, type MonitorView, type ScreenHits } from './view.js';

export interface ProcessTable {
  readonly lines: Span[][];
  readonly hits: Pick<ScreenHits, 'titles' | 'tableRows' | 'first'>;
}

export interface TableOptions {
  readonly view: MonitorView;
  readonly columns: number;
  /** Lines that it may take, the titles and the line above them included. */
  readonly height: number;
  readonly style: TextStyle;
  /** Why there is none, when there is none. */
  readonly empty: string;
}

/** The lines above the first process: what is listed, and the titles. */
export const tableHead = 2;

/** The processes as a table: what is listed and in which order, titles, then a line for each. */
export function processTable(rows: readonly ProcessRow[], options: TableOptions): ProcessTable {
  const { view, columns, height, style } = options;
  const plan = planColumns(columns, rows);
  const room = Math.max(0, height - tableHead);
  const first = firstInSight(view, rows, room);
  const shown = rows.slice(first, first + room);
  const titles = titleLine(plan, view, style);
  const lines = [
    caption(rows, { first, shown: shown.length, ...options }),
    titles.line,
    ...shown.map((row) => rowLine(row, plan, view, style)),
    ...(rows.length === 0 ? [[span(`  ${options.empty}`, 'dim')]] : []),
  ].slice(0, height);
  return { lines, hits: { titles: titles.places, tableRows: room, first } };
}

function caption(
  rows: readonly ProcessRow[],
  { view, columns, first, shown }: TableOptions & { first: number; shown: number },
): Span[] {
  const held = rows.reduce(
    (sum, { usedBytes }) => sum + (typeof usedBytes === 'number' ? usedBytes : 0),
    0,
  );
  const scope = view.scope === 'gpus' ? 'all GPUs' : cleanText(view.scope);
  const left = [
    span(`Processes on ${scope}`, 'bold'),
    ...(view.filter === '' ? [] : [span(`  filter: ${cleanText(view.filter)}`, 'yellow')]),
    ...(view.tagged.size === 0 ? [] : [span(`  ${view.tagged.size} tagged`, 'yellow')]),
    ...(view.tree ? [span('  tree', 'dim')] : []),
  ];
  const place = shown < rows.length ? `${first + 1} to ${first + shown} of ` : '';
  const sum = `${place}${count(rows.length, 'process', 'processes')}, ${formatBytes(held)}`;
  return spread(left, [span(sum, 'dim')], columns);
}

function titleLine(
  plan: ColumnPlan,
  view: MonitorView,
  style: TextStyle,
): { line: Span[]; places: ScreenHits['titles'] } {
  const arrow = style.unicode ? (view.descending ? '▾' : '▴') : view.descending ? 'v' : '^';
  const line: Span[] = [span('  ')];
  const places: { column: (typeof plan.columns)[number]['sort']; from: number; to: number }[] = [];
  let at = 2;
  for (const { title, sort, width, side } of plan.columns) {
    // The share has the order of the memory, whose title carries the mark.
    const marked = sort === view.sort && title !== '%' ? `${title}${arrow}` : title;
    const text = side === 'right' ? marked.padStart(width) : marked.padEnd(width);
    line.push(
      span(text.slice(0, width + 1).padEnd(width + 1), sort === view.sort ? 'bold' : 'dim'),
    );
    places.push({ column: sort, from: at, to: at + width + 1 });
    at += width + 1;
  }
  if (plan.trail > 0) {
    line.push(span(fitText(trailTitle, plan.trail + 1), 'dim'));
    at += plan.trail + 1;
  }
  const command = view.sort === 'command' ? `COMMAND${arrow}` : 'COMMAND';
  line.push(span(command, view.sort === 'command' ? 'bold' : 'dim'));
  places.push({ column: 'command', from: at, to: at + plan.command });
  return { line, places };
}

function rowLine(row: ProcessRow, plan: ColumnPlan, view: MonitorView, style: TextStyle): Span[] {
  const selected = row.key === view.selected;
  const mark = style.unicode ? '…' : '~';
  const quiet = row.deviceId === '';
  const line: Span[] = [span(`${selected ? '>' : ' '}${view.tagged.has(row.key) ? '*' : ' '}`)];
  for (const { width, side, text, paint } of plan.columns) {
    const cut = cutText(cleanText(text(row)), width, mark);
    const gap = ' '.repeat(width - textWidth(cut));
    line.push(span(side === 'right' ? `${gap}${cut} ` : `${cut}${gap} `, paint?.(row)));
  }
  if (plan.trail > 0) line.push(...trailSpans(row, plan.trail, style), span(' '));
  const branch = style.unicode ? row.branch : row.branch.replaceAll(/[│├└─]/g, '|');
  const command = cleanText(row.command).slice(view.commandFrom);
  line.push(span(branch, 'dim'), span(cutText(command, plan.command - textWidth(branch), mark)));
  if (quiet) return line.map(({ text }) => span(text, 'dim'));
  return selected ? inverse(line, plan) : line;
}

/** One colour for the whole line, to its end. */
function inverse(line: readonly Span[], plan: ColumnPlan): Span[] {
  const text = line.map((part) => part.text).join('');
  const width =
    2 +
    plan.columns.reduce((sum, column) => sum + column.width + 1, 0) +
    (plan.trail > 0 ? plan.trail + 1 : 0) +
    plan.command;
  return [span(text.padEnd(text.length + width - textWidth(text)), 'inverse')];
}

/** From nothing to the most that it held, so that small processes show their shape, too. */
function trailSpans(
  { trail: values, growth }: ProcessRow,
  width: number,
  style: TextStyle,
): Span[] {
  const top = values.reduce((most, value) => (value > most ? value : most), 1);
  const [row = []] = sparkRows(values, { width, height: 1, top, line: Infinity, style });
  const isGrowing = growth !== 'none' && isKnown(growth);
  return isGrowing ? row.map(({ text }) => span(text, 'yellow')) : row;
}

/** A column of the table of processes. */
interface ProcessColumn {
  readonly title: string;
  /** What a click on its title sorts by. */
  readonly sort: SortColumn;
  readonly width: number;
  readonly side: 'left' | 'right';
  readonly text: (row: ProcessRow) => string;
  readonly paint?: (row: ProcessRow) => Paint | undefined;
}

/** Memory over time; it is drawn, not written. */
const trailTitle = 'OVER TIME';

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

interface ColumnPlan {
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
function planColumns(columns: number, rows: readonly ProcessRow[]): ColumnPlan {
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
