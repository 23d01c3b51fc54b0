import type { Paint, Span, TextStyle } from '../spans.js';
import { span } from '../spans.js';
import { merge } from './runs.js';

export interface ChartLine {
  readonly values: readonly number[];
  readonly paint: Paint;
}

export interface BrailleOptions {
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
export function rowOf(value: number, top: number, height: number): number {
  return height - 1 - Math.min(height - 1, Math.floor((value / top) * height));
}
