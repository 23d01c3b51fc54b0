import { formatBytes } from '../../../units/bytes.js';
import { formatSeconds } from '../../../units/durations.js';
import { isKnown } from '../../../units/known.js';
import type { DeviceState } from '../../../watch/types.js';
import {
  causeWords,
  forecastWords,
  leakWords,
  percentOf,
  percentWords,
  trendWords,
  usedOfTotal,
} from '../../words.js';
import { loadLineCell, memoryBar } from '../charts/bar.js';
import { riskPaint, trendArrow } from '../charts/marks.js';
import { type Paint, type Span, span, spansWidth, spread } from '../spans.js';
import { cleanText, fitText } from '../text-width.js';
import { busyRows, type DeviceView, recentRows, recentSeconds } from './screen-recent.js';

/** A line that is kept while there is room; the lowest rank stays longest. */
interface Ranked {
  readonly rank: number;
  readonly line: Span[] | 'memory' | 'busy';
}

/** The first rows of a graph come before words that matter less; the others take what is left. */
const memoryRanks = [2.2, 4, 5, 7, ...Array.from({ length: 36 }, (_, row) => 10 + row)];
const busyRanks = [6.5, 8, ...Array.from({ length: 12 }, (_, row) => 10.4 + row * 3)];

/** A device as a block of lines: how many it could fill, and the most telling of them. */
export interface DeviceBlock {
  readonly fullHeight: number;
  /** At most `height` lines. */
  lines(height: number): Span[][];
}

export function deviceBlock(state: DeviceState, view: DeviceView): DeviceBlock {
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
    { rank: 0, line: bar(state, view) },
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
const bytesWidth = 18;

/** The bar takes what its figures leave of the line. */
function barEnd({ latest }: DeviceState, { columns }: DeviceView): string {
  const { usedBytes, totalBytes } = latest;
  const percent = ` ${percentWords(percentOf(usedBytes, totalBytes), 1).padStart(7)}`;
  if (columns < roomForBytes) return percent;
  return `${percent}  ${usedOfTotal(usedBytes, totalBytes).padStart(bytesWidth)}`;
}

function bar(state: DeviceState, view: DeviceView): Span[] {
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
