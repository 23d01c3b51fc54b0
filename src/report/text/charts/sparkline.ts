import { type Span, span, type TextStyle } from '../spans.js';
import { Runs } from './runs.js';

const blocks = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'] as const;
const asciiBlocks = [' ', '.', '.', '-', '-', '=', '=', '#', '#'] as const;

export interface SparkOptions {
  readonly width: number;
  readonly height: number;
  /** The value at the top of the drawing. */
  readonly top: number;
  /** Values from here on are painted as over the line; drawn where nothing covers it. */
  readonly line: number;
  readonly style: TextStyle;
}

/**
 * Values over time as rows of blocks, oldest left, always `height` rows of `width` cells.
 * NaN is a gap. With two rows or more the load line is drawn behind the blocks.
 */
export function sparkRows(values: readonly number[], options: SparkOptions): Span[][] {
  const { width, height, top, line, style } = options;
  const ramp = style.unicode ? blocks : asciiBlocks;
  const columns = resample(values, width);
  const lineRow =
    height >= 2 && top > 0 ? height - 1 - Math.floor((line / top) * height - 1e-9) : -1;
  const highest = columns.reduce((most, value) => (value > most ? value : most), 0);
  const mark = style.unicode ? '╌' : '-';
  return Array.from({ length: height }, (_, row) => {
    // Above everything there is only the line, or nothing.
    if (
      top > 0 &&
      Math.round(((highest / top) * height - (height - 1 - row)) * 8) <= 0 &&
      row < height - 1
    ) {
      return [row === lineRow ? span(mark.repeat(width), 'magenta') : span(' '.repeat(width))];
    }
    const cells = new Runs();
    for (const value of columns) {
      const level = Number.isNaN(value) || top <= 0 ? 0 : (value / top) * height;
      const part = Math.round((level - (height - 1 - row)) * 8);
      // What is there shows, however little it is.
      const least = row === height - 1 && level > 0 ? 1 : 0;
      const text = ramp[Math.min(8, Math.max(least, part))] ?? ' ';
      if (text !== ' ') cells.add(text, value >= line ? 'red' : 'cyan');
      else if (row === lineRow) cells.add(mark, 'magenta');
      else cells.add(' ', undefined);
    }
    return cells.spans();
  });
}

/** The peak of each cell's share of the values; fewer values than cells keep to the right. */
export function resample(values: readonly number[], width: number): number[] {
  if (values.length <= width) {
    return [...Array.from({ length: width - values.length }, () => Number.NaN), ...values];
  }
  return Array.from({ length: width }, (_, index) => {
    const from = Math.floor((index * values.length) / width);
    const to = Math.max(from + 1, Math.floor(((index + 1) * values.length) / width));
    let peak = Number.NaN;
    for (let at = from; at < to; at++) {
      const value = values[at] ?? Number.NaN;
      if (!(value <= peak)) peak = Number.isNaN(value) ? peak : value;
    }
    return peak;
  });
}
