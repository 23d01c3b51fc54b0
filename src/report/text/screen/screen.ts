import { formatSeconds } from '../../../units/durations.js';
import { isKnown } from '../../../units/known.js';
import { type Alert, type DeviceState, risks, type WatchEvent } from '../../../watch/types.js';
import { count, percentOf, percentWords, utcWords } from '../../words.js';
import { paintLine, type Span, span, spread, type TextStyle } from '../spans.js';
import { cleanText } from '../text-width.js';
import { compactDevices } from './screen-compact.js';
import { deviceBlock } from './screen-device.js';
import { newsLines } from './screen-news.js';
import type { DeviceView } from './screen-recent.js';

/** All that the monitor shows at one instant. */
export interface ScreenModel {
  readonly states: readonly DeviceState[];
  readonly alerts: readonly Alert[];
  /** Samples and alerts among them are passed over. */
  readonly events: readonly WatchEvent[];
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

/** From here on a device has a block of its own; below it has one line. */
const leastBlock = 3;

/**
 * The live monitor as lines: never more than `rows`, none wider than `columns`, whatever the
 * devices, processes and alerts are called.
 *
 * @example
 * const lines = renderScreen(model, { columns: 80, rows: 24 }, { colour: true, unicode: true });
 */
export function renderScreen(model: ScreenModel, size: ScreenSize, style: TextStyle): string[] {
  const columns = Math.floor(size.columns);
  const rows = Math.floor(size.rows);
  if (!(columns >= 1 && rows >= 1)) return [];
  const head = rows >= 4 ? [header(model, columns)] : [];
  const foot = rows >= 6 ? [footer(model, columns)] : [];
  const airy = rows >= 16;
  const body = rows - head.length - foot.length - (airy ? 1 : 0);

  const news = newsLines(model, columns, style);
  const reserved = Math.min(
    news.length,
    body >= 8 ? Math.max(2, Math.floor(body / 4)) : body >= 4 ? 1 : 0,
  );
  const devices = deviceLines(model, columns, body - reserved, style);
  // A blank line before the news where it fits, and the news fill what the devices leave.
  const left = body - devices.length;
  const told =
    left >= 3 && news.length > 0 ? [[], ...news.slice(0, left - 1)] : news.slice(0, left);
  const lines: Span[][] = [...head, ...(airy ? [[]] : []), ...devices, ...told];
  while (foot.length > 0 && lines.length < rows - 1) lines.push([]);
  return [...lines, ...foot].slice(0, rows).map((line) => paintLine(line, columns, style));
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

function footer(model: ScreenModel, columns: number): Span[] {
  return spread(
    [span('q or Ctrl-C leaves', 'dim')],
    [
      span(
        `load line ${percentWords(model.loadLinePercent)}   plimsoll ${cleanText(model.version)}`,
        'dim',
      ),
    ],
    columns,
  );
}

/** Blocks when each device can have one, else a line each, else those that matter most. */
function deviceLines(
  model: ScreenModel,
  columns: number,
  rows: number,
  style: TextStyle,
): Span[][] {
  const { states, loadLinePercent, nowSeconds } = model;
  if (states.length === 0) return rows > 0 ? [[span('No device is seen.', 'dim')]] : [];
  const view: DeviceView = { columns, nowSeconds, loadLinePercent, style };
  if (rows >= states.length * leastBlock && columns >= 30) return blocks(states, view, rows);
  if (states.length <= rows) return compactDevices(states, view);
  const shown = maxUrgent(states, Math.max(1, rows - 1));
  const more = span(`and ${count(states.length - shown.length, 'more device')}`, 'dim');
  return [...compactDevices(shown, view), [more]].slice(0, Math.max(0, rows));
}

/** What one device does not need, the ones after it may have. */
function blocks(states: readonly DeviceState[], view: DeviceView, rows: number): Span[][] {
  // Blank lines between the blocks only where they do not cost one of three lines.
  const gap: Span[][] = rows - (states.length - 1) >= states.length * (leastBlock + 1) ? [[]] : [];
  const all = states.map((state) => deviceBlock(state, view));
  const budget = all.map(() => 0);
  for (let left = rows - gap.length * (states.length - 1); left > 0; ) {
    let given = 0;
    for (const [index, { fullHeight }] of all.entries()) {
      const now = budget[index] ?? 0;
      if (given >= left || now >= fullHeight) continue;
      budget[index] = now + 1;
      given++;
    }
    if (given === 0) break;
    left -= given;
  }
  return all.flatMap((block, index) => {
    const lines = block.lines(budget[index] ?? 0);
    return index === 0 ? lines : gap.concat(lines);
  });
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
