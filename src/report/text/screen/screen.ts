import { formatSeconds } from '../../../units/durations.js';
import type { Alert, DeviceState, WatchEvent } from '../../../watch/types.js';
import { noHits, type ScreenHits } from '../../monitor/hits.js';
import type { ProcessRow } from '../../monitor/process-row.js';
import type { MonitorView } from '../../monitor/view.js';
import { count, utcWords } from '../../words.js';
import { themes } from '../charts/themes.js';
import { paintLine, type Span, span, spread, type TextStyle } from '../spans.js';
import { cleanText } from '../text-width.js';
import { deviceArea } from './device-area.js';
import { processTable, tableHead } from './process-table.js';
import { footLines } from './screen-foot.js';
import { helpLines } from './screen-help.js';
import { activeAlerts, newsItems, wholeItems } from './screen-news.js';
import { processPage } from './screen-process.js';

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
