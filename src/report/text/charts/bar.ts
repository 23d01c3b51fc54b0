import { isKnown, type Known } from '../../../units/known.js';
import type { Risk, Trend } from '../../../watch/types.js';
import { type Paint, type Span, span, type TextStyle } from '../spans.js';
import { Runs } from './runs.js';

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
