import type { Attempt, ProgressPoint } from '../run/types.js';
import { formatBytes } from '../units/bytes.js';
import { formatSeconds } from '../units/durations.js';
import { isKnown, type Known } from '../units/known.js';
import { html, type Markup } from './html/markup.js';

const width = 960;
const height = 120;

/** Throughput, loss and memory over the steps of an attempt, with each recovery marked. */
export function progressPart({ progress, rungs }: Attempt): Markup | false {
  if (progress === undefined || progress.length < 2) return false;
  const from = progress[0]?.atSeconds ?? 0;
  const to = Math.max(progress.at(-1)?.atSeconds ?? 0, from + 1e-3);
  const x = (seconds: number) => round(((seconds - from) / (to - from)) * width);
  const marks = rungs
    .filter(({ atSeconds }) => atSeconds >= from && atSeconds <= to)
    .map(({ rung, atSeconds }) => ({ x: x(atSeconds), rung }));
  const lines: readonly (readonly [string, (point: ProgressPoint) => Known<number>, string])[] = [
    [
      'Samples a second',
      ({ samplesPerSecond }) => samplesPerSecond,
      lastOf(progress, 'samplesPerSecond', String),
    ],
    ['Peak memory', ({ peakBytes }) => peakBytes, lastOf(progress, 'peakBytes', formatBytes)],
    ['Loss', ({ loss }) => loss, lastOf(progress, 'loss', (loss) => loss.toPrecision(4))],
  ];
  const charts = lines.flatMap(([name, value, last]) => {
    const points = progress.flatMap((point) => {
      const found = value(point);
      return isKnown(found) ? [{ x: x(point.atSeconds), value: found }] : [];
    });
    return points.length < 2 ? [] : [chart(name, points, marks, last)];
  });
  if (charts.length === 0) return false;
  const steps = `${progress.at(-1)?.step ?? 0} steps in ${formatSeconds(to)}; each recovery is a line across`;
  return html`<h3>Over its steps</h3><p class="soft">${steps}.</p>${charts}`;
}

function chart(
  name: string,
  points: readonly { readonly x: number; readonly value: number }[],
  marks: readonly { readonly x: number; readonly rung: string }[],
  last: string,
): Markup {
  const values = points.map(({ value }) => value);
  const low = Math.min(0, ...values);
  const high = Math.max(...values, low + 1e-9);
  const y = (value: number) => round(height - 4 - ((value - low) / (high - low)) * (height - 8));
  const path = points.map((point) => `${point.x},${y(point.value)}`).join(' ');
  return html`<figure><figcaption>${name}, at the end ${last}</figcaption><svg viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" width="100%" height="${height}" role="img" aria-label="${name}">${marks.map(
    (mark) =>
      html`<line x1="${mark.x}" x2="${mark.x}" y1="0" y2="${height}" stroke="currentColor" stroke-dasharray="4 3" opacity="0.5"><title>${mark.rung}</title></line>`,
  )}<polyline points="${path}" fill="none" stroke="currentColor" stroke-width="1.5" vector-effect="non-scaling-stroke"/></svg></figure>`;
}

function lastOf(
  progress: readonly ProgressPoint[],
  key: 'samplesPerSecond' | 'peakBytes' | 'loss',
  words: (value: number) => string,
): string {
  const found = progress.findLast((point) => isKnown(point[key]))?.[key] ?? 'unknown';
  return isKnown(found) ? words(found) : found;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
