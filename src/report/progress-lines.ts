import type { Attempt, ProgressPoint } from '../run/types.js';
import { formatBytes } from '../units/bytes.js';
import { formatSeconds } from '../units/durations.js';
import { isKnown, type Known } from '../units/known.js';

/** In units of the drawing, which is stretched to the width that there is. */
export const chartSize = { width: 960, height: 120 } as const;

/** One figure over the steps of an attempt. */
export interface ProgressLine {
  readonly name: string;
  /** Its last value, in words. */
  readonly last: string;
  /** Points of a polyline. */
  readonly path: string;
}

export interface ProgressLines {
  readonly summary: string;
  readonly lines: readonly ProgressLine[];
  /** Where a recovery lies across all of them. */
  readonly marks: readonly { readonly x: number; readonly rung: string; readonly why: string }[];
}

export interface Figure {
  readonly name: string;
  readonly value: (point: ProgressPoint) => Known<number>;
  readonly words: (value: number) => string;
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
    said: (bytes) => `peak ${bytes}`,
  },
  {
    name: 'Loss',
    value: (point) => point.loss,
    words: (loss) => loss.toPrecision(4),
    said: (loss) => `loss ${loss}`,
  },
];

/** What is drawn of these: steps a second only where not all of them tell of samples. */
export function shownFigures(series: readonly (readonly ProgressPoint[])[]): readonly Figure[] {
  const tellsSamples = series.every(
    (points) => points.length === 0 || points.some(({ samplesPerSecond: rate }) => isKnown(rate)),
  );
  return tellsSamples ? figures.filter(({ name }) => name !== stepRate) : figures;
}

/** What a chart says of its last value: an attempt that goes on has no end. */
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
  const lines = shownFigures([progress]).flatMap(({ name, value, words }) => {
    const points = progress.flatMap((point) => {
      const found = value(point);
      return isKnown(found) ? [{ x: x(point.atSeconds), value: found }] : [];
    });
    const end = points.at(-1);
    return end === undefined || points.length < 2
      ? []
      : [{ name, last: words(end.value), path: pathOf(points) }];
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

/** From 0, or lower where a value is: heights can be compared. */
function pathOf(points: readonly { readonly x: number; readonly value: number }[]): string {
  const { height } = chartSize;
  const values = points.map(({ value }) => value);
  const low = Math.min(0, ...values);
  const high = Math.max(...values, low + 1e-9);
  const y = (value: number) => round(height - 4 - ((value - low) / (high - low)) * (height - 8));
  return points.map((point) => `${point.x},${y(point.value)}`).join(' ');
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
