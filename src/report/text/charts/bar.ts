import type { Known } from '../../../units/known.js';
import { isKnown } from '../../../units/known.js';
import { type Span, span, type TextStyle } from '../spans.js';

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
  const cells = Array.from({ length: width }, (_, index) => cell(filled - index, style));
  return merge([
    ...cells.slice(0, mark).map((text) => span(text, text === rest(style) ? 'dim' : water)),
    span(style.unicode ? '┃' : '|', 'magenta'),
    ...cells.slice(mark + 1).map((text) => span(text, text === rest(style) ? 'dim' : 'red')),
  ]);
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

/** Neighbours of one colour become one span, so that a line carries few escape sequences. */
export function merge(spans: readonly Span[]): Span[] {
  const merged: Span[] = [];
  let text = '';
  let paint: Span['paint'];
  for (const next of spans) {
    if (text !== '' && next.paint !== paint) {
      merged.push({ text, paint });
      text = '';
    }
    paint = next.paint;
    text += next.text;
  }
  if (text !== '') merged.push({ text, paint });
  return merged;
}
