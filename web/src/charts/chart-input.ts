import type { Forecast } from '../api/types.js';

/** Something that happened, marked on the time axis. */
export interface ChartMark {
  readonly atMs: number;
  readonly look: 'warning' | 'critical' | 'plain';
}

/** The contents of a chart of memory over time. */
export interface ChartInput {
  readonly epochMs: readonly number[];
  readonly max: readonly (number | null)[];
  readonly min: readonly (number | null)[];
  readonly fromMs: number;
  readonly toMs: number;
  /** The time after which all is forecast; undefined for a chart of the past. */
  readonly nowMs: number | undefined;
  readonly topBytes: number;
  readonly capacityBytes: number | undefined;
  /** The load line of a device, or the reservation of a job. */
  readonly loadLineBytes: number | undefined;
  readonly lineLabel: string;
  readonly cone: ForecastShape | undefined;
  readonly marks: readonly ChartMark[];
}

/** A cone in time and bytes: where it starts, when it reaches the limit, at the soonest and latest. */
export interface ForecastShape {
  readonly fromMs: number;
  readonly fromBytes: number;
  readonly limitBytes: number;
  readonly etaMs: number;
  readonly soonestMs: number;
  /** Undefined: it may never come to it; the cone stays open. */
  readonly latestMs: number | undefined;
}

/** Undefined where no end is seen. */
export function forecastShape(
  forecast: Forecast,
  now: { readonly ms: number; readonly usedBytes: number; readonly limitBytes: number },
): ForecastShape | undefined {
  const { etaSeconds, lowSeconds, highSeconds } = forecast;
  if (typeof etaSeconds !== 'number') return undefined;
  return {
    fromMs: now.ms,
    fromBytes: now.usedBytes,
    limitBytes: now.limitBytes,
    etaMs: now.ms + etaSeconds * 1000,
    soonestMs: now.ms + (typeof lowSeconds === 'number' ? lowSeconds : etaSeconds) * 1000,
    latestMs: typeof highSeconds === 'number' ? now.ms + highSeconds * 1000 : undefined,
  };
}

/** How far a chart reaches beyond now: a third where an end is forecast, else a small margin. */
export function roomAhead(windowMs: number, shape: ForecastShape | undefined): number {
  return shape === undefined ? windowMs * 0.04 : windowMs * 0.3;
}
