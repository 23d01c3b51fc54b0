import type { Attempt, ProgressPoint } from '../run/types.js';
import { formatBytes, GiB, KiB, MiB } from '../units/bytes.js';
import { formatSeconds } from '../units/durations.js';
import { isKnown, type Known } from '../units/known.js';

/** In units of the drawing, which is stretched to the width that there is. */
export const chartSize = { width: 960, height: 120 } as const;

/** Labels of an axis: at both ends, and in its middle. */
export type Ticks = readonly [string, string, string];

/** A line of values over time, with what stands beside it. */
export interface Curve {
  /** Points of a polyline. */
  readonly path: string;
  /** From the top down. */
  readonly values: Ticks;
  /** From left to right. */
  readonly times: Ticks;
}

/** The heights of `values` in the drawing: half of a line at its edge would be outside. */
export const valueHeights = [4, 60, 116] as const;

/** One figure over the steps of an attempt. */
export interface ProgressLine extends Curve {
  readonly name: string;
  /** Its last value, in words. */
  readonly last: string;
}

export interface ProgressLines {
  readonly summary: string;
  readonly lines: readonly ProgressLine[];
  /** Positions of recoveries on that axis. */
  readonly marks: readonly { readonly x: number; readonly rung: string; readonly why: string }[];
}

export interface Figure {
  readonly name: string;
  readonly value: (point: ProgressPoint) => Known<number>;
  readonly words: (value: number) => string;
  /** The unit in which its axis is divided, where that is not 1. */
  readonly unitOf?: (highest: number) => number;
  /** In a sentence. */
  readonly said: (words: string) => string;
}

const stepRate = 'Steps a second';

const figures: readonly Figure[] = [
  {
    name: 'Samples a second',
    value: (point) => point.samplesPerSecond,
    words: String,
    said: (rate) => `${rate} samples a second`,
  },
  {
    name: stepRate,
    value: (point) => point.stepsPerSecond ?? 'unknown',
    words: String,
    said: (rate) => `${rate} steps a second`,
  },
  {
    name: 'Peak memory',
    value: (point) => point.peakBytes,
    words: formatBytes,
    unitOf: byteUnit,
    said: (bytes) => `peak ${bytes}`,
  },
  {
    name: 'Loss',
    value: (point) => point.loss,
    words: (loss) => loss.toPrecision(4),
    said: (loss) => `loss ${loss}`,
  },
];

/** Selects the figures to draw: steps a second only if not all series report samples. */
export function shownFigures(series: readonly (readonly ProgressPoint[])[]): readonly Figure[] {
  const tellsSamples = series.every(
    (points) => points.length === 0 || points.some(({ samplesPerSecond: rate }) => isKnown(rate)),
  );
  return tellsSamples ? figures.filter(({ name }) => name !== stepRate) : figures;
}

/** Returns the words for a chart's last value: a running attempt has no end. */
export function lastWords({ name, last }: ProgressLine, goesOn: boolean): string {
  return `${name}, ${goesOn ? 'now' : 'at the end'} ${last}`;
}

/** How far an attempt came, for a line of text; undefined where it told nothing. */
export function reachedWords(progress: readonly ProgressPoint[] = []): string | undefined {
  const last = progress.at(-1);
  if (last === undefined) return undefined;
  const reached = shownFigures([progress]).flatMap(({ value, words, said }) => {
    const found = value(last);
    return isKnown(found) ? [said(words(found))] : [];
  });
  return [`step ${last.step}`, ...reached].join(', ');
}

/** Throughput, memory and loss over the steps of an attempt, with its recoveries; undefined where it told too little. */
export function progressLines(
  { progress, rungs }: Pick<Attempt, 'progress' | 'rungs'>,
  goesOn = false,
): ProgressLines | undefined {
  if (progress === undefined || progress.length < 2) return undefined;
  const last = progress.at(-1)?.atSeconds ?? 0;
  // A recovery comes before the step that it saved is told, one of an evaluation after the last step.
  const times = [progress[0]?.atSeconds ?? 0, last, ...rungs.map(({ atSeconds }) => atSeconds)];
  const from = Math.min(...times);
  const to = Math.max(...times, from + 1e-3);
  const x = (seconds: number) => round(((seconds - from) / (to - from)) * chartSize.width);
  const lines = shownFigures([progress]).flatMap(({ name, value, words, unitOf }) => {
    const points = progress.flatMap(({ atSeconds, ...point }) => {
      const found = value({ ...point, atSeconds });
      return isKnown(found) ? [{ atSeconds, value: found }] : [];
    });
    const end = points.at(-1);
    if (end === undefined || points.length < 2) return [];
    const values = points.map((point) => point.value);
    const unit = unitOf?.(Math.max(...values)) ?? 1;
    const [low, high] = [
      -roundUp(-Math.min(0, ...values), unit),
      roundUp(Math.max(...values), unit),
    ];
    const label = unitOf === undefined ? plainWords : words;
    return [{ name, last: words(end.value), ...curveOf(points, { from, to, low, high }, label) }];
  });
  if (lines.length === 0) return undefined;
  return {
    summary: `${progress.at(-1)?.step ?? 0} steps in ${formatSeconds(last)}${goesOn ? ' so far' : ''}, measured; each recovery is a line across.`,
    lines,
    marks: rungs.map(({ rung, why, atSeconds }) => ({ x: inside(x(atSeconds)), rung, why })),
  };
}

/** A line at the very edge is half outside of the drawing. */
function inside(x: number): number {
  return Math.min(chartSize.width - 1, Math.max(1, x));
}

/** A line within a range of seconds and one of values; heights of lines from 0 on can be compared. */
export function curveOf(
  points: readonly { readonly atSeconds: number; readonly value: number }[],
  range: {
    readonly from: number;
    readonly to: number;
    readonly low: number;
    readonly high: number;
  },
  words: (value: number) => string,
): Curve {
  const { from, to, low, high } = range;
  const [top, , bottom] = valueHeights;
  const x = (at: number) => round(((at - from) / (to - from)) * chartSize.width);
  const y = (value: number) => round(bottom - ((value - low) / (high - low || 1)) * (bottom - top));
  return {
    path: points.map(({ atSeconds, value }) => `${x(atSeconds)},${y(value)}`).join(' '),
    values: [words(high), words((low + high) / 2), words(low)],
    times: [formatSeconds(from), formatSeconds((from + to) / 2), formatSeconds(to)],
  };
}

/** The end of an axis that is not below a value: its half is round, too. */
function roundUp(value: number, unit: number): number {
  if (value <= 0) return 0;
  const power = 10 ** Math.floor(Math.log10(value / unit)) * unit;
  const factor = [1, 1.5, 2, 3, 4, 6, 8].find((one) => one * power >= value) ?? 10;
  return factor * power;
}

/** The end of an axis of bytes. */
export function roundBytes(highest: number): number {
  return roundUp(highest, byteUnit(highest));
}

function byteUnit(highest: number): number {
  return [GiB, MiB, KiB].find((unit) => highest >= unit) ?? 1;
}

/** As short as it can be; sums of fractions are not exact. */
function plainWords(value: number): string {
  return String(Number(value.toPrecision(3)));
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
