import { loadLineOf } from '../../../device/load-line.js';
import { formatBytes } from '../../../units/bytes.js';
import { isKnown, type Known } from '../../../units/known.js';
import type { Cause, Risk } from '../../../watch/types.js';
import { timeTicks } from '../../ticks.js';
import { type Span, span, type TextStyle } from '../spans.js';
import { brailleChart, type ChartLine, rowOf } from './braille-chart.js';
import { riskPaint } from './marks.js';

export interface ReplayAlarm {
  readonly atSeconds: number;
  readonly risk: Known<Risk>;
  readonly etaSeconds: Known<number> | 'never';
  readonly lowSeconds: Known<number> | 'never';
  readonly highSeconds: Known<number> | 'never';
}

export interface ReplayResult {
  readonly alarms: readonly ReplayAlarm[];
  readonly leak: { readonly found: Known<boolean>; readonly bytesPerSecond: Known<number> };
  readonly cause: Cause;
}

export interface ReplayTrace {
  readonly capacityBytes: number;
  readonly seconds: readonly number[];
  /** What is held: reserved where an allocator reports, else used. */
  readonly usedBytes: readonly Known<number>[];
  /** Live bytes, drawn as a line of their own. */
  readonly allocatedBytes?: readonly Known<number>[];
}

export interface ReplayOptions {
  readonly columns: number;
  /** Rows of the chart itself. */
  readonly rows: number;
  readonly loadLinePercent: number;
  readonly style: TextStyle;
}

const labelWidth = 10;

/** The recorded series with its axes, and the alarms under the instants they were raised at. */
export function replayChart(
  result: ReplayResult,
  trace: ReplayTrace,
  options: ReplayOptions,
): Span[][] {
  const { columns, rows, style, loadLinePercent } = options;
  const width = columns - labelWidth - 2;
  if (width < 10 || rows < 3 || trace.seconds.length === 0) return [];
  const drawn: ChartLine[] = [{ values: numbers(trace.usedBytes), paint: 'cyan' }];
  if (trace.allocatedBytes) drawn.push({ values: numbers(trace.allocatedBytes), paint: 'green' });
  const capacity = trace.capacityBytes;
  const top = drawn.flatMap(({ values }) => values).reduce(higher, capacity) * 1.02;
  const loadLine = loadLineOf(capacity, { share: loadLinePercent / 100 });
  const first = trace.seconds[0] ?? 0;
  const toSeconds = trace.seconds.at(-1) ?? first;
  // A first row a breath after the start still has its axis begin at 0.
  const fromSeconds = first > 0 && first < toSeconds * 0.02 ? 0 : first;
  const levels = [
    { value: capacity, mark: style.unicode ? '─' : '=', paint: 'dim' as const },
    { value: loadLine, mark: style.unicode ? '╌' : '-', paint: 'magenta' as const },
  ];
  const body = brailleChart(drawn, {
    seconds: trace.seconds,
    fromSeconds,
    toSeconds,
    top,
    width,
    height: rows,
    levels,
    style,
  });
  const labels = new Map([
    [rows - 1, '0'],
    [rowOf(loadLine, top, rows), 'load line'],
    [rowOf(capacity, top, rows), formatBytes(capacity)],
  ]);
  const share = (at: number): number =>
    Math.min(
      width - 1,
      Math.max(
        0,
        Math.floor(((at - fromSeconds) / Math.max(toSeconds - fromSeconds, 1e-9)) * width),
      ),
    );
  return [
    legend(trace, style),
    ...body.map((row, index) => wallOf(labels.get(index) ?? '', style).concat(row)),
    axis(
      timeTicks(fromSeconds, toSeconds, Math.max(2, Math.floor(width / 12))),
      width,
      share,
      style,
    ),
    ...alarmMarks(result.alarms, width, share),
  ];
}

/** What stands left of a row of the plot. */
function wallOf(label: string, style: TextStyle): Span[] {
  return [
    span(label.padStart(labelWidth), label === 'load line' ? 'magenta' : 'dim'),
    span(style.unicode ? ' │' : ' |', 'dim'),
  ];
}

/** Unknown is a gap in the line. */
function numbers(values: readonly Known<number>[]): number[] {
  return values.map((value) => (isKnown(value) ? value : Number.NaN));
}

function higher(most: number, value: number): number {
  return value > most ? value : most;
}

function legend(trace: ReplayTrace, style: TextStyle): Span[] {
  const mark = style.unicode ? '⠤' : '*';
  const line = [span(' '.repeat(labelWidth + 2)), span(mark, 'cyan'), span(' used', 'dim')];
  return trace.allocatedBytes
    ? [...line, span(`   ${mark}`, 'green'), span(' allocated', 'dim')]
    : line;
}

function axis(
  ticks: readonly { readonly at: number; readonly label: string }[],
  width: number,
  share: (at: number) => number,
  style: TextStyle,
): Span[] {
  let text = '';
  for (const { at, label } of ticks) {
    const place = share(at);
    if (place < text.length || place + label.length > width) continue;
    text = `${text.padEnd(place)}${label} `;
  }
  const corner = style.unicode ? '└' : '+';
  return [span(' '.repeat(labelWidth)), span(` ${corner}${text}`, 'dim')];
}

/** Numbers under the chart, the alarm's place in the list below; those that collide move a row down. */
function alarmMarks(
  alarms: readonly ReplayAlarm[],
  width: number,
  share: (at: number) => number,
): Span[][] {
  const rows: { text: string; spans: Span[] }[] = [];
  alarms.forEach(({ atSeconds, risk }, index) => {
    const label = String(index + 1);
    const place = Math.min(share(atSeconds), width - label.length);
    let row = rows.find(({ text }) => text.length < place || text === '');
    if (!row) {
      row = { text: '', spans: [] };
      rows.push(row);
    }
    row.spans.push(span(' '.repeat(place - row.text.length)), span(label, riskPaint(risk)));
    row.text = row.text.padEnd(place) + label;
  });
  return rows.map(({ spans }, index) => {
    const name = (index === 0 ? 'alarms' : '').padStart(labelWidth);
    return [span(`${name}  `, 'dim')].concat(spans);
  });
}
