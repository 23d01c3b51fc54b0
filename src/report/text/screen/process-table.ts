import { formatBytes } from '../../../units/bytes.js';
import { isKnown } from '../../../units/known.js';
import type { ScreenHits } from '../../monitor/hits.js';
import type { ProcessRow } from '../../monitor/process-row.js';
import { firstInSight } from '../../monitor/selection.js';
import type { MonitorView } from '../../monitor/view.js';
import { count } from '../../words.js';
import { sparkRows } from '../charts/sparkline.js';
import { type Span, span, spread, type TextStyle } from '../spans.js';
import { cleanText, cutText, fitText, textWidth } from '../text-width.js';
import { type ColumnPlan, planColumns, trailTitle } from './process-columns.js';

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
  if (plan.trail > 0) line.push(...trail(row, plan.trail, style), span(' '));
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
function trail({ trail: values, growth }: ProcessRow, width: number, style: TextStyle): Span[] {
  const top = values.reduce((most, value) => (value > most ? value : most), 1);
  const [row = []] = sparkRows(values, { width, height: 1, top, line: Infinity, style });
  const isGrowing = growth !== 'none' && isKnown(growth);
  return isGrowing ? row.map(({ text }) => span(text, 'yellow')) : row;
}
