import { isKnown, type Known } from '../../units/known.js';
import type { Risk, Trend } from '../../watch/types.js';
import { type Paint, type Span, span, type TextStyle } from './spans.js';

/** Neighbours of one colour become one span, so that a line carries few escape sequences. */
class Runs {
  readonly #done: Span[] = [];
  #text = '';
  #paint: Paint | undefined;

  add(text: string, paint: Paint | undefined): void {
    if (this.#text !== '' && paint !== this.#paint) {
      this.#done.push({ text: this.#text, paint: this.#paint });
      this.#text = '';
    }
    this.#paint = paint;
    this.#text += text;
  }

  /** What was added, and nothing left. */
  spans(): Span[] {
    if (this.#text !== '') this.#done.push({ text: this.#text, paint: this.#paint });
    this.#text = '';
    return this.#done;
  }
}

/** Spans whose neighbours of one colour are joined. */
export function merge(spans: readonly Span[]): Span[] {
  const runs = new Runs();
  for (const { text, paint } of spans) runs.add(text, paint);
  return runs.spans();
}

const blocks = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'] as const;
const asciiBlocks = [' ', '.', '.', '-', '-', '=', '=', '#', '#'] as const;

interface SparkOptions {
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

const eighths = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'] as const;

/**
 * Memory as a bar of exactly `width` cells, with the load line on it like a draft mark on a hull.
 *
 * @example
 * memoryBar(20, 61, 90, { colour: false, unicode: true }); // ████████████▏·····┃··
 */
export function memoryBar(
  width: number,
  percent: Known<number>,
  loadLinePercent: number,
  style: TextStyle,
): Span[] {
  if (width < 1) return [];
  if (!isKnown(percent)) return [span((style.unicode ? '·' : '.').repeat(width), 'dim')];
  const filled = (Math.min(100, Math.max(0, percent)) / 100) * width;
  const mark = loadLineCell(width, loadLinePercent);
  const over = percent >= loadLinePercent;
  const water = over ? 'red' : percent >= loadLinePercent * 0.85 ? 'yellow' : 'cyan';
  const cells = new Runs();
  for (let index = 0; index < width; index++) {
    const text = cell(filled - index, style);
    if (index === mark) cells.add(style.unicode ? '┃' : '|', 'magenta');
    else cells.add(text, text === rest(style) ? 'dim' : index < mark ? water : 'red');
  }
  return cells.spans();
}

/** The cell of a bar that the load line stands in. */
export function loadLineCell(width: number, loadLinePercent: number): number {
  return Math.min(width - 1, Math.max(0, Math.round((loadLinePercent / 100) * width) - 1));
}

function rest(style: TextStyle): string {
  return style.unicode ? '·' : '-';
}

function cell(amount: number, style: TextStyle): string {
  if (!style.unicode) return amount >= 0.5 ? '#' : rest(style);
  const part = eighths[Math.min(8, Math.max(0, Math.round(amount * 8)))] ?? '';
  return part === '' ? rest(style) : part;
}

const arrows: Readonly<Record<Trend, readonly [unicode: string, ascii: string]>> = {
  increasing: ['↗', '/'],
  decreasing: ['↘', '\\'],
  stable: ['→', '-'],
  unknown: [' ', ' '],
};

export function trendArrow(trend: Trend, style: TextStyle): string {
  return arrows[trend][style.unicode ? 0 : 1];
}

const paints: Readonly<Record<Risk | 'unknown', Paint>> = {
  none: 'dim',
  low: 'dim',
  medium: 'yellow',
  high: 'red',
  critical: 'red',
  unknown: 'dim',
};

export function riskPaint(risk: Known<Risk>): Paint {
  return paints[risk];
}
