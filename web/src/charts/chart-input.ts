import type { ForecastShape } from './forecast-shape.js';

/** Something that happened, marked on the time axis. */
export interface ChartMark {
  readonly atMs: number;
  readonly look: 'warning' | 'critical' | 'plain';
}

/** What a chart of memory over time shows. */
export interface ChartInput {
  readonly epochMs: readonly number[];
  readonly max: readonly (number | null)[];
  readonly min: readonly (number | null)[];
  readonly fromMs: number;
  readonly toMs: number;
  /** What lies right of it is forecast; undefined for a chart of the past. */
  readonly nowMs: number | undefined;
  readonly topBytes: number;
  readonly capacityBytes: number | undefined;
  /** The load line of a device, or the reservation of a job. */
  readonly loadLineBytes: number | undefined;
  readonly lineLabel: string;
  readonly cone: ForecastShape | undefined;
  readonly marks: readonly ChartMark[];
}
