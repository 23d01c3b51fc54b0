import { GiB } from '../../../units/bytes.js';
import { formatSeconds } from '../../../units/durations.js';
import { isKnown, type Known } from '../../../units/known.js';
import type { DeviceState } from '../../../watch/types.js';
import { etaWords, percentOf } from '../../words.js';
import { memoryBar } from '../charts/bar.js';
import { riskPaint, trendArrow } from '../charts/marks.js';
import { type Span, span } from '../spans.js';
import { cleanText, cutText, fitText, textWidth } from '../text-width.js';
import { type DeviceView, recentRows } from './screen-recent.js';

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
export function compactDevices(states: readonly DeviceState[], view: DeviceView): Span[][] {
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
