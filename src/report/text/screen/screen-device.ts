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
import { type DeviceView, recentRows, recentSeconds } from './screen-recent.js';

/** A line that is kept while there is room; the lowest rank stays longest. */
interface Ranked {
  readonly rank: number;
  readonly line: Span[] | 'spark';
}

const sparkRanks = [2.2, 6.5, 7.5, 9.5] as const;
const processRanks = [4, 5, 7, 8, 9] as const;

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
      const spark = sparkBlock(state, view, kept.filter(({ line }) => line === 'spark').length);
      let row = 0;
      return kept.map(({ line }) => (line === 'spark' ? (spark[row++] ?? []) : line));
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
    ...sparkRanks.map((rank): Ranked => ({ rank, line: 'spark' })),
    { rank: 2, line: note('forecast', forecastWords(forecast), riskPaint(forecast.risk)) },
  ];
  if (leak.found === true) {
    lines.push({ rank: 3, line: note('leak', `${leakWords(leak)}, estimated`, 'yellow') });
  }
  // A leak that was found has its own line.
  if (cause !== 'none' && cause !== 'unknown' && !(cause === 'leak' && leak.found === true)) {
    lines.push({ rank: 3.2, line: note('cause', `${causeWords(cause)}, estimated`) });
  }
  return [...lines, ...processes(state, view)];
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

function sparkBlock(state: DeviceState, view: DeviceView, height: number): Span[][] {
  const label = ` last ${formatSeconds(recentSeconds(view))}`;
  const width = view.columns - label.length;
  if (height === 0 || width < 1) return [];
  const rows = recentRows(state, view, width, height);
  rows.at(-1)?.push(span(label, 'dim'));
  return rows;
}

function processes(state: DeviceState, view: DeviceView): Ranked[] {
  if (!isKnown(state.processes)) {
    return [{ rank: 4, line: [span('processes unknown: they could not be seen', 'dim')] }];
  }
  return state.processes.slice(0, processRanks.length).map((process, index) => {
    const bytes = formatBytes(process.usedBytes);
    const pid = String(process.pid).padStart(8);
    const growing = state.processLeaks.get(process.pid)?.found === true ? ' grows' : '';
    const room = Math.max(0, Math.min(view.columns - pid.length - 2 - 11 - growing.length, 60));
    const mark = view.style.unicode ? '…' : '~';
    return {
      rank: processRanks[index] ?? 9,
      line: [
        span(pid, 'dim'),
        span('  '),
        span(fitText(cleanText(process.name), room, mark)),
        span(bytes.padStart(11)),
        span(growing, 'yellow'),
      ],
    };
  });
}
