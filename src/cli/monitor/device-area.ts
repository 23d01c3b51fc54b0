import { loadLineOf } from '../../device/load-line.js';
import {
  loadLineCell,
  memoryBar,
  riskPaint,
  sparkRows,
  trendArrow,
} from '../../report/text/charts.js';
import {
  type Paint,
  type Span,
  span,
  spansWidth,
  spread,
  type TextStyle,
} from '../../report/text/spans.js';
import { cleanText, cutText, fitText, textWidth } from '../../report/text/text-width.js';
import {
  causeWords,
  count,
  etaWords,
  forecastWords,
  leakWords,
  percentOf,
  percentWords,
  trendWords,
  usedOfTotal,
} from '../../report/words.js';
import { formatBytes, GiB } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import { isKnown, type Known } from '../../units/known.js';
import { type Column, type DeviceState, risks, type Series } from '../../watch/types.js';
import type { ScreenHits } from './view.js';

export interface DeviceArea {
  readonly lines: Span[][];
  /** Rows count from the first line of the area. */
  readonly hits: ScreenHits['devices'];
}

/** From here on a device has a block of its own; below it has one line. */
const leastBlock = 3;
/** A block narrower than this cannot tell what it has to. */
const leastBlockColumns = 30;
/** Two blocks stand side by side where each has this many columns. */
const besideColumns = 70;
const gutter = 3;

/** Blocks when each device can have one, else a line each, else those that matter most. */
export function deviceArea(
  states: readonly DeviceState[],
  view: DeviceView,
  rows: number,
  compact = false,
): DeviceArea {
  if (rows < 1) return { lines: [], hits: [] };
  if (states.length === 0) return { lines: [[span('No device is seen.', 'dim')]], hits: [] };
  const most = Math.max(1, Math.floor((view.columns + gutter) / (besideColumns + gutter)));
  const down = Math.ceil(states.length / most);
  // Nine devices stand in threes where four would fit: no line of the grid is nearly empty.
  const across = Math.ceil(states.length / down);
  const roomy = rows >= down * leastBlock && view.columns >= leastBlockColumns;
  return roomy && !compact
    ? blocks(states, view, { rows, across, down })
    : linesOf(states, view, rows);
}

function linesOf(states: readonly DeviceState[], view: DeviceView, rows: number): DeviceArea {
  const shown = states.length <= rows ? states : maxUrgent(states, Math.max(1, rows - 1));
  const more = states.length - shown.length;
  const all = [
    ...compactDevices(shown, view),
    ...(more > 0 ? [[span(`and ${count(more, 'more device')}`, 'dim')]] : []),
  ];
  const hits = shown.map(({ info }, index) => ({
    id: info.id,
    top: index,
    bottom: index + 1,
    left: 0,
    right: view.columns,
  }));
  return { lines: all.slice(0, rows), hits: hits.slice(0, rows) };
}

/** A grid of blocks: all blocks of one line of the grid are equally high. */
function blocks(
  states: readonly DeviceState[],
  view: DeviceView,
  { rows, across, down }: { rows: number; across: number; down: number },
): DeviceArea {
  const width = Math.floor((view.columns - gutter * (across - 1)) / across);
  // Blank lines between the blocks only where they do not cost one of three lines.
  const gap = rows - (down - 1) >= down * (leastBlock + 1) ? 1 : 0;
  const all = states.map((state) => deviceBlock(state, { ...view, columns: width }));
  const tallest = (line: number) =>
    Math.max(...all.slice(line * across, (line + 1) * across).map(({ fullHeight }) => fullHeight));
  let left = rows - gap * (down - 1);
  const area: Span[][] = [];
  const hits: ScreenHits['devices'][number][] = [];
  for (let line = 0; line < down; line++) {
    const height = Math.min(tallest(line), Math.floor(left / (down - line)));
    left -= height;
    if (line > 0 && gap > 0) area.push([]);
    const top = area.length;
    const cells = all.slice(line * across, (line + 1) * across).map((block) => block.lines(height));
    for (let row = 0; row < height; row++) {
      area.push(cells.flatMap((cell, index) => padded(cell[row] ?? [], index, width)));
    }
    cells.forEach((_, index) => {
      const id = states[line * across + index]?.info.id ?? '';
      const from = index * (width + gutter);
      hits.push({ id, top, bottom: top + height, left: from, right: from + width });
    });
  }
  return { lines: area, hits };
}

/** To its full width, with the gutter before it unless it is the first. */
function padded(line: readonly Span[], index: number, width: number): Span[] {
  const rest = Math.max(0, width - spansWidth(line));
  return [...(index > 0 ? [span(' '.repeat(gutter))] : []), ...line, span(' '.repeat(rest))];
}

function maxUrgent(states: readonly DeviceState[], shown: number): DeviceState[] {
  const kept = new Set(
    states.toSorted((one, other) => urgency(other) - urgency(one)).slice(0, shown),
  );
  return states.filter((state) => kept.has(state));
}

/** Risk first; between equal risks, how full. */
function urgency({ forecast, latest }: DeviceState): number {
  const percent = percentOf(latest.usedBytes, latest.totalBytes);
  const risk = isKnown(forecast.risk) ? risks.indexOf(forecast.risk) : 0;
  return risk * 1000 + (isKnown(percent) ? Math.min(percent, 999) : 0);
}

/** What drawing a device needs to know beside the device. */
interface DeviceView {
  readonly columns: number;
  readonly nowSeconds: number;
  readonly loadLinePercent: number;
  readonly style: TextStyle;
}

/** A minute until one has passed, then five: a scale that changes all the time cannot be read. */
function recentSeconds({ nowSeconds }: DeviceView): number {
  return nowSeconds <= 60 ? 60 : 300;
}

/** How busy the device was over the last minutes, from idle to fully busy, as rows of blocks. */
function busyRows(state: DeviceState, view: DeviceView, width: number, height: number): Span[][] {
  const values = recent(state, view, 'utilization', width);
  const options = { width, height, top: 100, line: Infinity, style: view.style };
  return sparkRows(values, options).map((row) =>
    row.map(({ text, paint }) => ({ text, paint: paint === 'cyan' ? 'green' : paint })),
  );
}

/** Used memory over the last minutes, from empty to full, as rows of blocks. */
function recentRows(state: DeviceState, view: DeviceView, width: number, height: number): Span[][] {
  const values = recent(state, view, 'used', width);
  const total = state.latest.totalBytes;
  const top = isKnown(total) ? total : Math.max(...values.filter((value) => value >= 0), 1);
  const line = isKnown(total) ? loadLineOf(total, { share: view.loadLinePercent / 100 }) : Infinity;
  return sparkRows(values, { width, height, top, line, style: view.style });
}

function recent(state: DeviceState, view: DeviceView, column: Column, width: number): number[] {
  const fromSeconds = view.nowSeconds - recentSeconds(view);
  const range = { fromSeconds, toSeconds: view.nowSeconds };
  const series = state.history.series(column, {
    fromSeconds: Math.max(0, fromSeconds),
    toSeconds: view.nowSeconds,
    maxPoints: Math.max(2, width * 2),
  });
  return overTime(series, range, width);
}

/** Widths that all one-line devices share, so that their columns stand under one another. */
interface Layout {
  readonly id: number;
  readonly bar: number;
  readonly spark: number;
  readonly bytes: boolean;
  readonly compute: boolean;
  readonly trend: boolean;
  /** Whether the forecast shows its bounds. */
  readonly bounds: boolean;
  readonly outlook: number;
}

const percentWidth = 6;
const bytesWidth = 16;
const computeWidth = 11;
const trendWidth = 2;
const leastBar = 6;

/** One line a device: what is left when there are many of them, or little room. */
function compactDevices(states: readonly DeviceState[], view: DeviceView): Span[][] {
  const layout = chooseLayout(states, view.columns);
  return states.map((state) => compactLine(state, layout, view));
}

function chooseLayout(states: readonly DeviceState[], columns: number): Layout {
  const idWidth = Math.max(...states.map((state) => textWidth(cleanText(state.info.id))), 4);
  const id = Math.min(idWidth, Math.max(4, Math.floor(columns / 4)));
  const bounds = columns >= 110;
  const outlook = Math.max(...states.map((state) => textWidth(outlookText(state, bounds))), 0);
  let left = columns - id - 1 - percentWidth;
  // What is worth the most comes first; the bar takes what remains.
  const take = (width: number, spare: number): boolean => {
    if (width === 0 || left - width < spare) return false;
    left -= width;
    return true;
  };
  const trend = take(trendWidth, leastBar);
  const forecast = outlook > 0 && take(Math.min(outlook + 2, 34), leastBar + 2);
  const bytes = take(bytesWidth, leastBar + 2);
  const compute = take(computeWidth, leastBar + 6);
  const spark = left >= 22 ? Math.min(Math.floor(left * 0.4), 40) : 0;
  const bar = left >= leastBar ? Math.min(left - (spark > 0 ? spark + 1 : 0), 60) : 0;
  const shown = forecast ? Math.min(outlook, 32) : 0;
  return { id, bar, spark, bytes, compute, trend, bounds, outlook: shown };
}

function compactLine(state: DeviceState, layout: Layout, view: DeviceView): Span[] {
  const { loadLinePercent, style } = view;
  const { latest, info } = state;
  const percent = percentOf(latest.usedBytes, latest.totalBytes);
  const mark = style.unicode ? '…' : '~';
  const line = [
    span(fitText(cleanText(info.id), layout.id, mark), state.present ? 'bold' : 'dim'),
    span(' '),
    ...memoryBar(layout.bar, percent, loadLinePercent, style),
    span(
      (isKnown(percent) ? `${Math.round(percent)} %` : '?').padStart(percentWidth),
      percentPaint(percent, loadLinePercent),
    ),
  ];
  if (layout.spark > 0)
    line.push(span(' '), ...(recentRows(state, view, layout.spark, 1)[0] ?? []));
  if (layout.bytes) line.push(span(shortBytes(state).padStart(bytesWidth)));
  if (layout.compute) {
    const busy = latest.utilizationPercent;
    line.push(
      span((isKnown(busy) ? `${Math.round(busy)} % busy` : '').padStart(computeWidth), 'dim'),
    );
  }
  if (layout.trend) line.push(span(` ${trendArrow(state.history.trend(), style)}`));
  const outlook = layout.outlook > 0 ? outlookText(state, layout.bounds) : '';
  if (outlook !== '') {
    line.push(span(`  ${cutText(outlook, layout.outlook, mark)}`, riskPaint(state.forecast.risk)));
  }
  return line;
}

function percentPaint(percent: Known<number>, loadLinePercent: number): 'red' | undefined {
  return isKnown(percent) && percent >= loadLinePercent ? 'red' : undefined;
}

function shortBytes({ latest }: DeviceState): string {
  return `${gib(latest.usedBytes)}/${gib(latest.totalBytes)} GiB`;
}

function gib(bytes: Known<number>): string {
  return isKnown(bytes) ? (bytes / GiB).toFixed(1) : '?';
}

function outlookText(state: DeviceState, bounds: boolean): string {
  if (!state.present) return 'gone';
  const { forecast } = state;
  const eta = etaWords(forecast);
  if (forecast.etaSeconds === 0) return 'full now';
  if (eta === undefined || typeof forecast.etaSeconds !== 'number') {
    return state.info.provenance === 'simulated' ? 'simulated' : '';
  }
  return bounds ? `full in ${eta}` : `full in ${formatSeconds(forecast.etaSeconds)}`;
}

/** A line that is kept while there is room; the lowest rank stays longest. */
interface Ranked {
  readonly rank: number;
  readonly line: Span[] | 'memory' | 'busy';
}

/** The first rows of a graph come before words that matter less; the others take what is left. */
const memoryRanks = [2.2, 4, 5, 7, ...Array.from({ length: 36 }, (_, row) => 10 + row)];
const busyRanks = [6.5, 8, ...Array.from({ length: 12 }, (_, row) => 10.4 + row * 3)];

/** A device as a block of lines: how many it could fill, and the most telling of them. */
interface DeviceBlock {
  readonly fullHeight: number;
  /** At most `height` lines. */
  lines(height: number): Span[][];
}

function deviceBlock(state: DeviceState, view: DeviceView): DeviceBlock {
  const all = ranked(state, view);
  return {
    fullHeight: all.length,
    lines(height) {
      const last = all.map(({ rank }) => rank).toSorted((one, other) => one - other)[height - 1];
      const kept = all
        .filter(({ rank }) => rank <= (last ?? Infinity))
        .slice(0, Math.max(0, height));
      const rows = (what: 'memory' | 'busy') => kept.filter(({ line }) => line === what).length;
      const graphs = {
        memory: graph(state, view, rows('memory'), 'memory'),
        busy: graph(state, view, rows('busy'), 'busy'),
      };
      const next = { memory: 0, busy: 0 };
      return kept.map(({ line }) =>
        typeof line === 'string' ? (graphs[line][next[line]++] ?? []) : line,
      );
    },
  };
}

function ranked(state: DeviceState, view: DeviceView): Ranked[] {
  const { forecast, leak, cause } = state;
  const lines: Ranked[] = [
    { rank: 1, line: title(state, view) },
    { rank: 0, line: barSpans(state, view) },
    { rank: 6, line: loadLabel(state, view) },
    { rank: 2.5, line: figures(state, view) },
    ...memoryRanks.map((rank): Ranked => ({ rank, line: 'memory' })),
    ...(isKnown(state.latest.utilizationPercent)
      ? busyRanks.map((rank): Ranked => ({ rank, line: 'busy' }))
      : []),
    { rank: 2, line: note('forecast', forecastWords(forecast), riskPaint(forecast.risk)) },
  ];
  if (leak.found === true) {
    lines.push({ rank: 3, line: note('leak', `${leakWords(leak)}, estimated`, 'yellow') });
  }
  // A leak that was found has its own line.
  if (cause !== 'none' && cause !== 'unknown' && !(cause === 'leak' && leak.found === true)) {
    lines.push({ rank: 3.2, line: note('cause', `${causeWords(cause)}, estimated`) });
  }
  return lines;
}

function note(name: string, text: string, paint?: Paint): Span[] {
  return [span(fitText(name, 9), 'dim'), span(cleanText(text), paint)];
}

function title(state: DeviceState, view: DeviceView): Span[] {
  const { info } = state;
  const badge = state.present ? [] : [span('  '), span(' gone ', 'inverse')];
  const simulated =
    info.provenance === 'simulated' ? [span('  '), span(' simulated ', 'inverse')] : [];
  const from =
    info.source === info.provenance ? info.provenance : `${info.source}, ${info.provenance}`;
  return spread(
    [
      span(cleanText(info.id), 'bold'),
      span('  '),
      span(cleanText(info.name)),
      ...simulated,
      ...badge,
    ],
    [span(from, 'dim')],
    view.columns,
  );
}

/** From here on the bytes have room beside the bar. */
const roomForBytes = 56;
/** As wide as `139.8 of 139.8 GiB`, so that the bars of all devices end alike. */
const heldWidth = 18;

/** The bar takes what its figures leave of the line. */
function barEnd({ latest }: DeviceState, { columns }: DeviceView): string {
  const { usedBytes, totalBytes } = latest;
  const percent = ` ${percentWords(percentOf(usedBytes, totalBytes), 1).padStart(7)}`;
  if (columns < roomForBytes) return percent;
  return `${percent}  ${usedOfTotal(usedBytes, totalBytes).padStart(heldWidth)}`;
}

function barSpans(state: DeviceState, view: DeviceView): Span[] {
  const end = barEnd(state, view);
  const { usedBytes, totalBytes } = state.latest;
  const percent = percentOf(usedBytes, totalBytes);
  const over = isKnown(percent) && percent >= view.loadLinePercent;
  return [
    ...memoryBar(view.columns - end.length, percent, view.loadLinePercent, view.style),
    span(end, over ? 'red' : 'bold'),
  ];
}

/** The name of the mark, under it: to its left where there is room. */
function loadLabel(state: DeviceState, view: DeviceView): Span[] {
  const width = view.columns - barEnd(state, view).length;
  if (width < 1) return [];
  const place = loadLineCell(width, view.loadLinePercent);
  const pointer = view.style.unicode ? '▲' : '^';
  const label = `load line ${percentWords(view.loadLinePercent)} `;
  if (place >= label.length) {
    return [span(' '.repeat(place - label.length)), span(`${label}${pointer}`, 'magenta')];
  }
  return [span(' '.repeat(place)), span(`${pointer} ${label}`, 'magenta')];
}

function figures({ latest, history }: DeviceState, { style, columns }: DeviceView): Span[] {
  const trend = history.trend();
  const gap = span('   ');
  const bytes = [span(usedOfTotal(latest.usedBytes, latest.totalBytes)), span(' used', 'dim')];
  const parts = [
    ...(columns < roomForBytes ? [bytes] : []),
    [span(formatBytes(latest.freeBytes)), span(' free', 'dim')],
    [span(percentWords(latest.utilizationPercent)), span(' compute', 'dim')],
    [span(`${trendArrow(trend, style)} ${trendWords(trend)}`)],
  ];
  const line: Span[] = [];
  for (const part of parts) {
    const next = line.length === 0 ? part : [gap, ...part];
    if (spansWidth(line) + spansWidth(next) > columns) break;
    line.push(...next);
  }
  return line;
}

/** As wide as `memory, last 1 min`: both graphs end alike. */
const graphLabel = 19;

function graph(
  state: DeviceState,
  view: DeviceView,
  height: number,
  what: 'memory' | 'busy',
): Span[][] {
  const width = view.columns - graphLabel;
  if (height === 0 || width < 1) return [];
  const draw = what === 'memory' ? recentRows : busyRows;
  const rows = draw(state, view, width, height);
  rows.at(-1)?.push(span(` ${what}, last ${formatSeconds(recentSeconds(view))}`, 'dim'));
  return rows;
}

/**
 * A series at even steps of time, for drawings whose cells are all as long: the peak of each cell.
 * A bucket that is longer than a cell fills the cells it covers; before the first and after the
 * last there is NaN.
 */
export function overTime(
  series: Series,
  range: { readonly fromSeconds: number; readonly toSeconds: number },
  cells: number,
): number[] {
  const values = Array.from({ length: cells }, () => Number.NaN);
  const step = (range.toSeconds - range.fromSeconds) / cells;
  const { seconds, max } = series;
  for (let index = 0; index < seconds.length; index++) {
    const from = seconds[index] ?? 0;
    const to = seconds[index + 1] ?? from;
    const value = max[index] ?? Number.NaN;
    if (Number.isNaN(value) || to < range.fromSeconds || from > range.toSeconds) continue;
    const first = clamp(Math.floor((from - range.fromSeconds) / step), cells);
    const last = clamp(Math.ceil((to - range.fromSeconds) / step) - 1, cells);
    for (let cell = first; cell <= Math.max(first, last); cell++) {
      const before = values[cell] ?? Number.NaN;
      values[cell] = Number.isNaN(before) ? value : Math.max(before, value);
    }
  }
  return values;
}

function clamp(cell: number, cells: number): number {
  return Math.min(cells - 1, Math.max(0, cell));
}
