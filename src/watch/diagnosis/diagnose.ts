import type { ProcessReading } from '../../device/contract.js';
import type { Cause, Forecast, Leak, MemoryPoint } from '../types.js';
import { causeOf } from './cause.js';
import { Cells } from './cells.js';
import { createForecaster } from './forecast.js';
import { hasSpikes, jumpsUp } from './jumps.js';
import { createLeakDetector } from './leak.js';
import { ProcessGrowth } from './process-growth.js';

/** Everything that is concluded about one device, fed one point at a time; it never looks ahead. */
export interface Diagnosis {
  add(point: MemoryPoint): void;
  addProcesses(seconds: number, processes: readonly ProcessReading[]): void;
  forecast(): Forecast;
  leak(): Leak;
  processLeaks(): ReadonlyMap<number, Leak>;
  cause(): Cause;
}

/** The start of a program jumps and spikes: its first seconds say nothing about a cause. */
const startSeconds = 5;

/**
 * Concludes forecast, leak and cause of one device from the points it is fed.
 *
 * @example
 * const diagnosis = createDiagnosis();
 * diagnosis.add({ seconds: 0, limitBytes: 24e9, heldBytes: 3e9 });
 * diagnosis.forecast().reason;
 */
export function createDiagnosis(): Diagnosis {
  const forecaster = createForecaster();
  const heldLeak = createLeakDetector();
  const liveLeak = createLeakDetector();
  const processes = new ProcessGrowth();
  const heldCells = new Cells();
  const workCells = new Cells();
  let first: MemoryPoint | undefined;
  let latest: MemoryPoint | undefined;

  /** A leak is live memory that stays; what is held tells only where nobody reports what is live. */
  function leak(): Leak {
    if (latest?.liveBytes === undefined) return heldLeak.leak();
    const live = liveLeak.leak();
    if (live.found === true) return live;
    const held = heldLeak.leak();
    return held.found === true && forecaster.growth() !== undefined ? held : live;
  }

  return {
    add(point) {
      first ??= point;
      latest = point;
      forecaster.add(point);
      heldLeak.add(point.seconds, point.heldBytes, point.limitBytes);
      if (point.liveBytes !== undefined) {
        liveLeak.add(point.seconds, point.liveBytes, point.limitBytes);
      }
      if (point.seconds - first.seconds < startSeconds) return;
      heldCells.add(point.seconds, point.heldBytes);
      workCells.add(point.seconds, point.liveBytes ?? point.heldBytes);
    },
    addProcesses(seconds, readings) {
      if (latest) processes.add(seconds, readings, latest.limitBytes);
    },
    forecast: () => forecaster.forecast(),
    leak,
    processLeaks: () => processes.leaks(),
    cause() {
      if (!first || !latest) return 'unknown';
      const growth = forecaster.growth();
      const peaks = forecaster.recentPeaks();
      const { limitBytes } = latest;
      return causeOf({
        seenSeconds: latest.seconds - first.seconds,
        leak: leak(),
        growthRatio: growth?.ratio,
        byNeighbour: growth !== undefined && processes.grewByNeighbour(growth.fromSeconds),
        jumps: Math.max(0, ...heldCells.levels().map((cells) => jumpsUp(cells, limitBytes))),
        spikes: workCells.levels().some(hasSpikes),
        heldPeakShare: peaks.heldBytes / limitBytes,
        livePeakShare:
          peaks.liveBytes === undefined ? undefined : peaks.liveBytes / peaks.heldBytes,
      });
    },
  };
}
