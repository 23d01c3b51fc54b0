import { shownFigures } from '../../../src/report/progress-lines.js';
import { formatBytes } from '../../../src/units/bytes.js';
import { formatSeconds } from '../../../src/units/durations.js';
import { isKnown } from '../../../src/units/known.js';
import type { Attempt, JobHistory } from '../api/types.js';

export const comparedSize = { width: 960, height: 180 } as const;

interface Point {
  readonly x: number;
  readonly y: number;
}

/** Curves of several jobs on the same axes. */
export interface ComparedChart {
  readonly name: string;
  /** The unit of the horizontal axis, and its end. */
  readonly across: string;
  /** The top of the vertical axis. */
  readonly top: string;
  /** One for each job: points of a polyline, empty where it told nothing. */
  readonly paths: readonly string[];
}

/** Throughput, memory and loss over the number of the step. */
export function stepCharts(
  jobs: readonly (Pick<Attempt, 'progress'> | undefined)[],
): readonly ComparedChart[] {
  const shown = shownFigures(jobs.map((job) => job?.progress ?? []));
  return shown.flatMap(({ name, value, words }) => {
    const series = jobs.map((job) =>
      (job?.progress ?? []).flatMap((point) => {
        const y = value(point);
        return isKnown(y) ? [{ x: point.step, y }] : [];
      }),
    );
    return chartOf(name, series, words, (steps) => `steps, up to ${steps}`);
  });
}

/** Draws the memory of each job over the time since it started. */
export function memoryChart(histories: readonly JobHistory[]): readonly ComparedChart[] {
  const series = histories.map(({ epochMs, usedBytes }) =>
    usedBytes.flatMap((bytes, at) =>
      bytes === null ? [] : [{ x: ((epochMs[at] ?? 0) - (epochMs[0] ?? 0)) / 1000, y: bytes }],
    ),
  );
  return chartOf('Memory', series, formatBytes, timeAcross);
}

function timeAcross(seconds: number): string {
  return `time, up to ${formatSeconds(seconds)}`;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/** None where no job has two points. */
function chartOf(
  name: string,
  series: readonly (readonly Point[])[],
  words: (value: number) => string,
  across: (most: number) => string,
): readonly ComparedChart[] {
  if (!series.some((points) => points.length > 1)) return [];
  const all = series.flat();
  const most = { x: Math.max(...all.map(({ x }) => x)), y: Math.max(...all.map(({ y }) => y)) };
  // Of a simulated device nothing may be known but zeros.
  if (most.y <= 0 && all.every(({ y }) => y === 0)) return [];
  const least = Math.min(0, ...all.map(({ y }) => y));
  const { width, height } = comparedSize;
  const path = (points: readonly Point[]) =>
    points
      .map(({ x, y }) => {
        const left = (x / Math.max(most.x, 1e-9)) * width;
        const down = height - 3 - ((y - least) / Math.max(most.y - least, 1e-9)) * (height - 6);
        return `${round(left)},${round(down)}`;
      })
      .join(' ');
  return [{ name, across: across(most.x), top: words(most.y), paths: series.map(path) }];
}
