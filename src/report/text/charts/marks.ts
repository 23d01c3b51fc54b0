import type { Known } from '../../../units/known.js';
import type { Risk, Trend } from '../../../watch/types.js';
import type { Paint, TextStyle } from '../spans.js';

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
