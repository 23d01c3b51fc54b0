import { sparkRows } from '../../report/text/charts.js';
import {
  type Paint,
  paintLine,
  type Span,
  span,
  spansWidth,
  spread,
  type TextStyle,
  themes,
} from '../../report/text/spans.js';
import { cleanText, fitText, textWidth, wrapText } from '../../report/text/text-width.js';
import { count, percentWords, rateWords, utcWords } from '../../report/words.js';
import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import { isKnown } from '../../units/known.js';
import type { Alert, DeviceState, WatchEvent } from '../../watch/types.js';
import type { ProcessRow } from './build-rows.js';
import { deviceArea } from './device-area.js';
import { keyBindings, mouseUses } from './keys.js';
import { confirmWords } from './press.js';
import { processTable, tableHead } from './process-table.js';
import { sortColumns, sortLetters } from './sort-rows.js';
import { type MonitorView, noHits, type ScreenHits } from './view.js';

/** All that the monitor shows at one instant. */
export interface ScreenModel {
  readonly states: readonly DeviceState[];
  readonly alerts: readonly Alert[];
  /** Samples and alerts among them are passed over. */
  readonly events: readonly WatchEvent[];
  /** The processes that the view asks for, in its order. */
  readonly rows: readonly ProcessRow[];
  /** Why there is none, when there is none. */
  readonly noRows: string;
  readonly view: MonitorView;
  readonly nowSeconds: number;
  readonly epochMs: number;
  readonly hostname: string;
  readonly intervalSeconds: number;
  readonly loadLinePercent: number;
  readonly version: string;
}

export interface ScreenSize {
  readonly columns: number;
  readonly rows: number;
}

/** A picture of the screen, and where its parts are. */
export interface Frame {
  readonly lines: string[];
  readonly hits: ScreenHits;
}

/**
 * The live monitor as lines: never more than `rows`, none wider than `columns`, whatever the
 * devices, processes and alerts are called.
 *
 * @example
 * const { lines } = renderScreen(model, { columns: 80, rows: 24 }, { colour: true, unicode: true });
 */
export function renderScreen(model: ScreenModel, size: ScreenSize, style: TextStyle): Frame {
  const columns = Math.floor(size.columns);
  const rows = Math.floor(size.rows);
  if (!(columns >= 1 && rows >= 1)) return { lines: [], hits: noHits };
  const themed: TextStyle = { ...style, theme: themes[model.view.theme] };
  const asked = model.view.prompt !== undefined || model.view.message !== '';
  const foot = rows >= 6 || asked ? footLines({ ...model, columns }).slice(0, rows) : [];
  const head = rows - foot.length >= 4 ? [header(model, columns)] : [];
  const room = rows - head.length - foot.length;
  const body = bodyOf(model, { columns, rows: room }, themed);
  const lines = [...head, ...body.lines];
  while (foot.length > 0 && lines.length < rows - foot.length) lines.push([]);
  return {
    lines: [...lines, ...foot].slice(0, rows).map((line) => paintLine(line, columns, themed)),
    hits: moved(body.hits, head.length),
  };
}

interface Body {
  readonly lines: Span[][];
  readonly hits: ScreenHits;
}

function bodyOf(model: ScreenModel, size: ScreenSize, style: TextStyle): Body {
  const { view, rows } = model;
  switch (view.page) {
    case 'help':
      return scrolled(helpLines(size.columns), view.pageFirst, size.rows);
    case 'alerts':
      return scrolled(allNews(model, size.columns, style), view.pageFirst, size.rows);
    case 'details': {
      const row = rows.find(({ key }) => key === view.selected);
      const page = processPage(row, { columns: size.columns, height: size.rows, style });
      return scrolled(page, view.pageFirst, size.rows);
    }
    case 'main':
    default:
      return mainBody(model, size, style);
  }
}

/** Devices, then alerts, then processes: each gets what it needs before any gets more. */
function mainBody(model: ScreenModel, { columns, rows }: ScreenSize, style: TextStyle): Body {
  const { states, view, loadLinePercent, nowSeconds } = model;
  const deviceView = { columns, nowSeconds, loadLinePercent, style };
  const news = newsLines(model, columns, rows, style);
  const airy = rows >= 22 ? 1 : 0;
  const between = airy * (news.length > 0 ? 2 : 1);
  const free = rows - news.length - between;
  const wanted = Math.max(1, model.rows.length) + tableHead;
  const least = Math.min(wanted, tableHead + 3, Math.max(0, free - 1));
  const share = view.layout === 'devices' ? 0 : view.layout === 'processes' ? 1 : 0.45;
  const table = Math.max(least, Math.min(wanted, Math.floor(free * share)));
  const compact = view.layout === 'processes';
  const area = deviceArea(states, deviceView, Math.max(1, free - table), compact);
  const gap: Span[][] = airy > 0 ? [[]] : [];
  const above = [...area.lines, ...(news.length > 0 ? [...gap, ...news] : []), ...gap];
  const height = rows - above.length;
  if (height <= tableHead) {
    return { lines: above.slice(0, rows), hits: { ...noHits, devices: area.hits } };
  }
  const list = processTable(model.rows, { view, columns, height, style, empty: model.noRows });
  return {
    lines: [...above, ...list.lines],
    hits: { ...list.hits, titleRow: above.length + 1, devices: area.hits },
  };
}

/** The newest alert as a whole in any case; of the others what a quarter of the screen holds. */
function newsLines(model: ScreenModel, columns: number, rows: number, style: TextStyle): Span[][] {
  if (rows < 4) return [];
  const items = newsItems(model, columns, style);
  const { lines, shown } = wholeItems(items, Math.max(1, Math.floor(rows / 4)));
  const hidden = activeAlerts(model.alerts).size - shown;
  if (hidden <= 0) return lines;
  return [...lines, [span(`  and ${count(hidden, 'more alert')}: press a`, 'yellow')]];
}

function allNews(model: ScreenModel, columns: number, style: TextStyle): Span[][] {
  const items = newsItems(model, columns, style);
  return items.length === 0 ? [[span('No alert so far.', 'dim')]] : items.flat();
}

function scrolled(lines: Span[][], from: number, rows: number): Body {
  const first = Math.min(from, Math.max(0, lines.length - rows));
  return { lines: lines.slice(first, first + rows), hits: { ...noHits, tableRows: rows } };
}

function moved(hits: ScreenHits, by: number): ScreenHits {
  return {
    ...hits,
    titleRow: hits.titleRow < 0 ? -1 : hits.titleRow + by,
    devices: hits.devices.map((device) => ({
      ...device,
      top: device.top + by,
      bottom: device.bottom + by,
    })),
  };
}

function header(model: ScreenModel, columns: number): Span[] {
  const samples = model.states.reduce((sum, state) => sum + state.history.statistics().samples, 0);
  const details = [
    `every ${formatSeconds(model.intervalSeconds)}`,
    count(samples, 'sample'),
    utcWords(model.epochMs).slice(11),
  ];
  const left = [span('plimsoll', 'bold'), span('  '), span(cleanText(model.hostname))];
  for (let from = 0; from < details.length; from++) {
    const line = spread(left, [span(details.slice(from).join('   '), 'dim')], columns);
    if (line.length > left.length) return line;
  }
  return left;
}

/** A question has room for its command line, too. */
const maxQuestion = 3;

interface FootOptions {
  readonly view: MonitorView;
  readonly columns: number;
  readonly loadLinePercent: number;
  readonly version: string;
}

/** The foot of the screen: a question, what the last key did, or the keys that matter most. */
function footLines({ view, columns, loadLinePercent, version }: FootOptions): Span[][] {
  const { prompt, message, page } = view;
  if (prompt?.kind === 'confirm') {
    const text = wrapText(confirmWords(prompt.signal, prompt.targets), columns);
    return text.slice(0, maxQuestion).map((line) => [span(line, 'red')]);
  }
  if (prompt?.kind === 'sort') {
    const letters = sortColumns.map((column) => `${sortLetters[column].letter} ${column}`);
    return wrapText(`Sort by: ${letters.join(', ')}`, columns).map((line) => [
      span(line, 'yellow'),
    ]);
  }
  if (prompt?.kind === 'filter') {
    const typed = cleanText(view.filter);
    // The end of a long filter is what is being typed.
    const shown = typed.slice(Math.max(0, typed.length - Math.max(8, columns - 40)));
    return [
      [span('Filter: ', 'yellow'), span(`${shown}_`), span('  Enter keeps, Esc drops', 'dim')],
    ];
  }
  if (message !== '') return wrapText(message, columns).map((line) => [span(line, 'yellow')]);
  if (page !== 'main') return [[span('Esc back   Up Down scroll   Ctrl-C leave', 'dim')]];
  const right = `load line ${percentWords(loadLinePercent)}   plimsoll ${cleanText(version)}`;
  return [spread(hints(columns), [span(right, 'dim')], columns)];
}

/** As many as have room, in the order of the table. */
function hints(columns: number): Span[] {
  const line: Span[] = [];
  for (const { shown, short } of keyBindings) {
    if (short === undefined) continue;
    const key = shown.split(' ')[0] ?? shown;
    const next = [span(line.length === 0 ? key : `  ${key}`, 'bold'), span(` ${short}`, 'dim')];
    if (spansWidth(line) + spansWidth(next) > columns) break;
    line.push(...next);
  }
  return line;
}

interface Entry {
  readonly shown: string;
  readonly does: string;
}

const gap = 2;

/** Every key and what it does, in as many columns as have room; from the table of keys itself. */
function helpLines(columns: number): Span[][] {
  const letters = sortColumns.map((column) => `${sortLetters[column].letter} ${column}`).join(', ');
  const entries: Entry[] = [
    ...keyBindings,
    ...mouseUses,
    { shown: 'after o', does: `${letters}; a capital letter: the other way round` },
  ];
  const across = Math.max(1, Math.min(3, Math.floor(columns / 66)));
  const width = Math.floor((columns - gap * (across - 1)) / across);
  const key = Math.min(24, Math.max(...entries.map(({ shown }) => textWidth(shown)))) + 2;
  const blocks = entries.map((entry) => entryLines(entry, key, width));
  const share = Math.ceil(blocks.length / across);
  const parts = Array.from({ length: across }, (_, index) =>
    blocks.slice(index * share, (index + 1) * share).flat(),
  );
  const height = Math.max(...parts.map((part) => part.length));
  return Array.from({ length: height }, (_, row) =>
    parts.flatMap((part, index) => {
      const [shown = '', does = ''] = part[row] ?? [];
      const wide = index < across - 1 ? fitText(does, width - key + gap) : does;
      return [span(shown.padEnd(key), 'bold'), span(wide)];
    }),
  );
}

function entryLines({ shown, does }: Entry, key: number, width: number): [string, string][] {
  return wrapText(does, Math.max(20, width - key)).map((line, index) => [
    index === 0 ? shown : '',
    line,
  ]);
}

const nameWidth = 13;
const leastChart = 3;

/** All about one process: who it is, what it holds, and a chart of it. */
function processPage(
  row: ProcessRow | undefined,
  { columns, height, style }: { columns: number; height: number; style: TextStyle },
): Span[][] {
  if (row === undefined) return [[span('The process has ended.', 'dim')]];
  const lines = facts(row).flatMap(([name, text]) =>
    wrapText(text, Math.max(20, columns - nameWidth)).map((line, index) => [
      span(fitText(index === 0 ? name : '', nameWidth), 'dim'),
      span(line),
    ]),
  );
  const chartHeight = height - lines.length - 3;
  if (chartHeight < leastChart) return lines;
  const most = row.trail.reduce((top, value) => (value > top ? value : top), 1);
  const chart = sparkRows(row.trail, {
    width: Math.max(1, columns),
    height: chartHeight,
    top: most,
    line: Infinity,
    style,
  });
  const title = `Memory since it was first seen here, highest ${formatBytes(Math.round(most))} (${row.isSimulated ? 'simulated' : 'measured'})`;
  return [...lines, [], [span(title, 'bold')], ...chart];
}

function facts(row: ProcessRow): (readonly [string, string])[] {
  const used =
    row.usedBytes === 'none'
      ? 'none on a device that is watched'
      : `${formatBytes(row.usedBytes)} of ${row.deviceId}${row.sharePercent === 'none' ? '' : `, ${percentWords(row.sharePercent, 1)}`}`;
  return [
    ['process', `${row.pid}, started by ${row.parent}`],
    ['user', row.user],
    ['command', cleanText(row.command)],
    ['memory', used],
    ['growth', growthWords(row)],
    ['host', formatBytes(row.hostBytes)],
    ['processor', `${percentWords(row.cpuPercent)} of one core`],
    ['running for', isKnown(row.ageSeconds) ? formatSeconds(row.ageSeconds) : 'unknown'],
    ['job', row.job === 'none' ? 'none of plimsoll' : row.job],
    ['container', row.container],
    ...(row.isSimulated ? [['source', 'simulated: there is no such process'] as const] : []),
  ];
}

function growthWords({ growth, pid }: ProcessRow): string {
  if (growth === 'none') return 'none seen';
  const rate = isKnown(growth) ? rateWords(growth) : 'at an unknown rate';
  return `grows by ${rate}; next: plimsoll leak --check --pid ${pid}`;
}

interface News {
  /** 0 is over; of those that hold, a critical one comes first. */
  readonly rank: 0 | 1 | 2;
  readonly atSeconds: number;
  readonly mark: string;
  readonly deviceId: string;
  readonly text: string;
  readonly paint: Paint;
}

/** More than any screen is high; the rest is in the report. */
const maxNews = 100;
/** A sentence of ours has at most four lines at 60 columns; a longer one comes from outside. */
const maxLines = 6;
/** Narrower than this a sentence would be one word a line. */
const leastTextColumns = 20;

/** Alerts that still hold, critical ones before others, then what happened before, newest first with their age: the lines of each. */
function newsItems(
  model: {
    readonly alerts: readonly Alert[];
    readonly events: readonly WatchEvent[];
    readonly nowSeconds: number;
  },
  columns: number,
  style: TextStyle,
): Span[][][] {
  const active = activeAlerts(model.alerts);
  const news = [
    ...model.alerts.map((alert) => alertNews(alert, active.has(alert), style)),
    ...model.events.flatMap(eventNews),
  ]
    .toSorted((one, other) => other.rank - one.rank || other.atSeconds - one.atSeconds)
    .slice(0, maxNews);
  return news.map(({ atSeconds, mark, deviceId, text, paint }) => {
    const age = `${formatSeconds(Math.max(0, model.nowSeconds - atSeconds))} ago`;
    const when = columns >= 40 ? `${age.padEnd(14)} ` : '';
    const about = text.includes(deviceId) ? text : `${deviceId} ${text}`;
    // The fact is at the end of the sentence: it is wrapped, not cut.
    const lines = wrapText(about, Math.max(leastTextColumns, columns - 2 - when.length));
    return lines
      .slice(0, maxLines)
      .map((line, index) => [
        span(index === 0 ? `${mark} ` : '  ', paint),
        span(index === 0 ? when : ' '.repeat(when.length), 'dim'),
        span(line, paint),
      ]);
  });
}

/** Of each kind, device and process the last word counts. */
function activeAlerts(alerts: readonly Alert[]): ReadonlySet<Alert> {
  const last = new Map(
    alerts.map((alert) => [`${alert.kind} ${alert.deviceId} ${alert.pid ?? ''}`, alert]),
  );
  return new Set([...last.values()].filter(({ state }) => state === 'raised'));
}

function alertNews(alert: Alert, isActive: boolean, style: TextStyle): News {
  const cleared = alert.state === 'cleared';
  const sign = style.unicode ? ['▲', '✓'] : ['!', '-'];
  return {
    rank: isActive ? (alert.severity === 'critical' ? 2 : 1) : 0,
    atSeconds: alert.atSeconds,
    mark: (cleared ? sign[1] : sign[0]) ?? '',
    deviceId: alert.deviceId,
    text: alert.message,
    paint: cleared ? 'dim' : alert.severity === 'critical' ? 'red' : 'yellow',
  };
}

function eventNews(event: WatchEvent): News[] {
  if (event.type === 'appeared') {
    const text = `appeared: ${event.device.name}`;
    return [{ ...happened(event), mark: '+', text, paint: 'green' }];
  }
  if (event.type === 'vanished') {
    const text = `vanished: ${event.reason}`;
    return [{ ...happened(event), mark: '-', text, paint: 'red' }];
  }
  return [];
}

function happened(event: {
  readonly atSeconds: number;
  readonly device: { readonly id: string };
}): Pick<News, 'rank' | 'atSeconds' | 'deviceId'> {
  return { rank: 0, atSeconds: event.atSeconds, deviceId: event.device.id };
}

/** The first that have room, each as a whole; the very first in any case. */
function wholeItems(
  items: readonly (readonly Span[][])[],
  rows: number,
): { readonly lines: Span[][]; readonly shown: number } {
  const lines: Span[][] = [];
  let shown = 0;
  for (const item of items) {
    if (lines.length > 0 && lines.length + item.length > rows) break;
    lines.push(...item);
    shown++;
  }
  return { lines, shown };
}
