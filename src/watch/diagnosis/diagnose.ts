import type { ProcessReading } from '../../device/types.js';
import type { Cause, Forecast, Leak, MemoryPoint } from '../types.js';
import { causeOf } from './cause.js';
import { Cells } from './cells.js';
import { createForecaster } from './forecast.js';
import { hasSpikes, jumpsUp } from './jumps.js';
import { createLeakDetector } from './leak.js';
import { isGrowing, ProcessGrowth } from './process-growth.js';

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
 * Concludes forecast, leak and cause of one device from the points it is fed. Following a process takes
 * some 50 KB: `maxProcesses` are followed, the largest. `exceptPid` is not followed: the program
 * that watches grows in its first minutes, which would be reported as a leak.
 *
 * @example
 * const diagnosis = createDiagnosis();
 * diagnosis.add({ seconds: 0, limitBytes: 24e9, heldBytes: 3e9 });
 * diagnosis.forecast().reason;
 */
export function createDiagnosis({
  maxProcesses,
  exceptPid,
}: {
  readonly maxProcesses?: number | undefined;
  readonly exceptPid?: number | undefined;
} = {}): Diagnosis {
  // One past for all that look at the same series.
  const cells = { held: new Cells(), live: new Cells() };
  const forecaster = createForecaster(cells);
  const heldLeak = createLeakDetector({ cells: cells.held });
  const liveLeak = createLeakDetector({ cells: cells.live, live: true });
  const processes = new ProcessGrowth(maxProcesses);
  let first: MemoryPoint | undefined;
  let latest: MemoryPoint | undefined;

  /**
   * A leak is live memory that stays; what is held tells only where nothing reports what is live.
   * Where both are known and only what is held grows, it is not known what for.
   */
  function leak(): Leak {
    if (latest?.liveBytes === undefined) return heldLeak.leak();
    const live = liveLeak.leak();
    if (live.found !== false) return live;
    const held = heldLeak.leak();
    return isGrowing(held) ? { ...held, found: 'unknown', confidence: 0 } : live;
  }

  return {
    add(point) {
      first ??= point;
      latest = point;
      const { seconds, limitBytes, heldBytes, liveBytes } = point;
      cells.held.add(seconds, heldBytes);
      if (liveBytes !== undefined) cells.live.add(seconds, liveBytes);
      forecaster.add(point);
      heldLeak.add(seconds, heldBytes, limitBytes);
      if (liveBytes !== undefined) liveLeak.add(seconds, liveBytes, limitBytes);
    },
    addProcesses(seconds, readings) {
      if (!latest) return;
      const followed = readings.filter(({ pid }) => pid !== exceptPid);
      processes.add(seconds, followed, latest.limitBytes);
    },
    forecast: () => forecaster.forecast(),
    leak,
    processLeaks: () => processes.leaks(),
    cause() {
      if (!first || !latest) return 'unknown';
      const growth = forecaster.growth();
      const peaks = forecaster.recentPeaks();
      const { limitBytes } = latest;
      const started = first.seconds + startSeconds;
      const held = cells.held.levels(started);
      const work = latest.liveBytes === undefined ? held : cells.live.levels(started);
      return causeOf({
        seenSeconds: latest.seconds - first.seconds,
        leak: leak(),
        growthRatio: growth?.ratio,
        byNeighbour: growth !== undefined && processes.grewByNeighbour(growth.fromSeconds),
        jumps: Math.max(0, ...held.map((level) => jumpsUp(level, limitBytes))),
        spikes: work.some(hasSpikes),
        heldPeakShare: peaks.heldBytes / limitBytes,
        livePeakShare:
          peaks.liveBytes === undefined ? undefined : peaks.liveBytes / peaks.heldBytes,
      });
    },
  };
}
