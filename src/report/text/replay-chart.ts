import { loadLineOf } from '../../device/load-line.js';
import { formatBytes } from '../../units/bytes.js';
import { isKnown, type Known } from '../../units/known.js';
import type { Cause, Risk } from '../../watch/types.js';
import { timeTicks } from '../ticks.js';
import { merge, riskPaint } from './charts.js';
import { type Paint, type Span, span, type TextStyle } from './spans.js';

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

interface ChartLine {
  readonly values: readonly number[];
  readonly paint: Paint;
}

interface BrailleOptions {
  readonly seconds: readonly number[];
  readonly fromSeconds: number;
  readonly toSeconds: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
  /** Levels drawn across where no data cover them. */
  readonly levels: readonly {
    readonly value: number;
    readonly mark: string;
    readonly paint: Paint;
  }[];
  readonly style: TextStyle;
}

/** The eight dots of a braille cell, by column and row from the top. */
const dots = [
  [0x01, 0x02, 0x04, 0x40],
  [0x08, 0x10, 0x20, 0x80],
] as const;

/**
 * Lines over time in braille, two by four dots a cell; in ASCII, one star a cell. Every value is
 * drawn, as the stretch from the lowest to the highest in its column of dots, so no peak is lost.
 * A later line is painted over an earlier one where they share a cell.
 */
export function brailleChart(lines: readonly ChartLine[], options: BrailleOptions): Span[][] {
  const { width, height, style } = options;
  const bits = Array.from({ length: height }, () => new Uint8Array(width));
  const paints = Array.from({ length: height }, (): (Paint | undefined)[] => []);
  for (const line of lines) {
    stretches(line.values, options).forEach((stretch, x) => {
      if (!stretch) return;
      for (let y = stretch.low; y <= stretch.high; y++) {
        const down = height * 4 - 1 - y;
        const row = Math.floor(down / 4);
        const cells = bits[row];
        const column = Math.floor(x / 2);
        if (!cells) continue;
        cells[column] = (cells[column] ?? 0) | (dots[x % 2 === 0 ? 0 : 1][down % 4] ?? 0);
        paints[row] = Object.assign(paints[row] ?? [], { [column]: line.paint });
      }
    });
  }
  return bits.map((cells, row) =>
    merge(
      Array.from(cells, (value, column) => {
        if (value === 0) return levelAt(row, options) ?? span(' ');
        const text = style.unicode ? String.fromCodePoint(0x2800 + value) : '*';
        return span(text, paints[row]?.[column]);
      }),
    ),
  );
}

interface Stretch {
  low: number;
  high: number;
}

/** For each column of dots the lowest and highest dot, joined to the column before. */
function stretches(values: readonly number[], options: BrailleOptions): (Stretch | undefined)[] {
  const { seconds, fromSeconds, toSeconds, top, width, height } = options;
  const columns: (Stretch | undefined)[] = Array.from({ length: width * 2 });
  const last = height * 4 - 1;
  let before: number | undefined;
  values.forEach((value, index) => {
    const at = seconds[index];
    if (at === undefined || !Number.isFinite(value)) {
      before = undefined;
      return;
    }
    const share = (at - fromSeconds) / Math.max(toSeconds - fromSeconds, 1e-9);
    const x = Math.min(width * 2 - 1, Math.max(0, Math.floor(share * width * 2)));
    const y = Math.min(last, Math.max(0, Math.round((value / top) * last)));
    const low = Math.min(y, before ?? y);
    const high = Math.max(y, before ?? y);
    const here = columns[x];
    columns[x] = here
      ? { low: Math.min(here.low, low), high: Math.max(here.high, high) }
      : { low, high };
    before = y;
  });
  return columns;
}

function levelAt(row: number, { levels, height, top }: BrailleOptions): Span | undefined {
  const level = levels.find(({ value }) => rowOf(value, top, height) === row);
  return level && span(level.mark, level.paint);
}

/** The row of the chart that a value stands in, from the top. */
function rowOf(value: number, top: number, height: number): number {
  return height - 1 - Math.min(height - 1, Math.floor((value / top) * height));
}
