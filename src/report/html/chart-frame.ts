import { isKnown } from '../../units/known.js';
import type { Band, DeviceReport } from '../profile-report.js';

/** How big a chart is drawn; the page holds one of each and shows the one that suits the screen. */
export interface ChartSize {
  readonly name: 'wide' | 'narrow';
  readonly width: number;
  readonly height: number;
  readonly left: number;
  readonly timeTicks: number;
  readonly byteTicks: number;
}

export const wideChart: ChartSize = {
  name: 'wide',
  width: 960,
  height: 340,
  left: 64,
  timeTicks: 9,
  byteTicks: 6,
};

export const narrowChart: ChartSize = {
  name: 'narrow',
  width: 380,
  height: 290,
  left: 52,
  timeTicks: 4,
  byteTicks: 5,
};

/** Where data lie on the drawing: the plot rectangle and its two scales. */
export interface Frame {
  readonly size: ChartSize;
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
  readonly fromSeconds: number;
  /** The last sample; what lies right of it is forecast. */
  readonly nowSeconds: number;
  readonly toSeconds: number;
  readonly topBytes: number;
  x(seconds: number): number;
  y(bytes: number): number;
}

export function chartFrame(device: DeviceReport, size: ChartSize): Frame {
  const { seconds } = device.series;
  const first = seconds[0] ?? 0;
  const nowSeconds = Math.max(seconds.at(-1) ?? 0, first);
  // A first sample a breath after the start still has its axis begin at 0.
  const fromSeconds = first < (nowSeconds - first) * 0.02 ? Math.min(0, first) : first;
  // A single sample has no span; one second gives the axis a length.
  const span = nowSeconds > fromSeconds ? nowSeconds - fromSeconds : 1;
  const toSeconds = fromSeconds + span + forecastRoom(device, span);
  const topBytes = highest(device) * 1.08;
  const left = size.left;
  const right = size.width - 12;
  const top = 24;
  const bottom = size.height - 28;
  return {
    size,
    left,
    right,
    top,
    bottom,
    fromSeconds,
    nowSeconds,
    toSeconds,
    topBytes,
    x: (at) => left + ((at - fromSeconds) / (toSeconds - fromSeconds)) * (right - left),
    y: (bytes) => bottom - (bytes / topBytes) * (bottom - top),
  };
}

/** Time kept free for the cone: all of it when it is near; only its beginning when it is far off. */
function forecastRoom({ forecast }: DeviceReport, shown: number): number {
  if (typeof forecast.etaSeconds !== 'number') return 0;
  if (forecast.etaSeconds > shown * 1.5) return shown * 0.15;
  const far = typeof forecast.highSeconds === 'number' ? forecast.highSeconds : forecast.etaSeconds;
  return Math.min(Math.max(far * 1.08, shown * 0.12), shown * 0.7);
}

/** Capacity, or more where more was seen, so that nothing leaves the plot. */
function highest({ currentUsage, limit, series }: DeviceReport): number {
  let top = 1;
  for (const bytes of [currentUsage.totalBytes, limit.bytes]) {
    if (isKnown(bytes)) top = Math.max(top, bytes);
  }
  for (const band of [series.usedBytes, series.allocatedBytes, series.reservedBytes]) {
    for (const value of band?.max ?? []) if (isKnown(value)) top = Math.max(top, value);
  }
  return top;
}

/** One decimal of a pixel is finer than anyone sees, and half the bytes. */
export function px(value: number): string {
  return String(Math.round(value * 10) / 10);
}

/** A line through the known values; an unknown one leaves a gap. */
export function linePath(frame: Frame, seconds: readonly number[], values: Band['mean']): string {
  let path = '';
  let pen = 'M';
  values.forEach((value, index) => {
    const at = seconds[index];
    if (!isKnown(value) || at === undefined) {
      pen = 'M';
      return;
    }
    path += `${pen}${px(frame.x(at))} ${px(frame.y(value))}`;
    pen = 'L';
  });
  return path;
}

/** The space between two lines, one closed shape for each run of known values. */
export function bandPath(
  frame: Frame,
  seconds: readonly number[],
  low: Band['min'],
  high: Band['max'],
): string {
  let path = '';
  let run: { x: string; low: string; high: string }[] = [];
  const close = (): void => {
    if (run.length > 1) {
      const over = run.map((point) => `${point.x} ${point.high}`).join('L');
      const back = run
        .map((point) => `${point.x} ${point.low}`)
        .toReversed()
        .join('L');
      path += `M${over}L${back}Z`;
    }
    run = [];
  };
  seconds.forEach((at, index) => {
    const least = low[index] ?? 'unknown';
    const most = high[index] ?? 'unknown';
    if (!isKnown(least) || !isKnown(most)) return close();
    run.push({ x: px(frame.x(at)), low: px(frame.y(least)), high: px(frame.y(most)) });
  });
  close();
  return path;
}
