import type { ProcessReading } from '../../device/types.js';
import { isKnown } from '../../units/known.js';
import type { Cause, Forecast, Leak, MemoryPoint } from '../types.js';
import { type Cell, Cells } from './cells.js';
import { createForecaster } from './forecast.js';
import { median } from './growth.js';
import { createLeakDetector, type LeakDetector } from './leak.js';
import type { ForecastCosts } from './probability.js';

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
  costs,
}: {
  readonly maxProcesses?: number | undefined;
  readonly exceptPid?: number | undefined;
  readonly costs?: ForecastCosts | undefined;
} = {}): Diagnosis {
  // One past for all that look at the same series.
  const cells = { held: new Cells(), live: new Cells() };
  const forecaster = createForecaster(cells, costs);
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

/** More processes than this are followed only while they are among the largest. */
const usualProcesses = 64;
/** Past readings kept to hold the present against; they thin out as they age. */
const snapshotsKept = 48;
/** Readings whose times are kept: a process that rested this long is known to have rested. */
const timesKept = 600;
/** A neighbour is one that grew while the largest took less than this share of the growth. */
const ownShare = 0.3;

interface Snapshot {
  readonly seconds: number;
  readonly bytesByPid: ReadonlyMap<number, number>;
}

/**
 * A process that has held the same bytes since it was first seen: most do, and a detector has nothing to
 * find in them. It gets one, with the same readings, when that changes.
 */
interface Rest {
  readonly sinceSeconds: number;
  readonly bytes: number;
}

/** Whether memory grows, be it known to be a leak or not. */
export function isGrowing(leak: Leak): boolean {
  return leak.found !== false && isKnown(leak.bytesPerSecond);
}

/** Follows each process on a device: which of them leaks, and which of them made it grow. */
export class ProcessGrowth {
  readonly #detectors = new Map<number, LeakDetector>();
  readonly #rests = new Map<number, Rest>();
  #times: number[] = [];
  readonly #maxProcesses: number;
  #snapshots: Snapshot[] = [];

  constructor(maxProcesses = usualProcesses) {
    this.#maxProcesses = maxProcesses;
  }

  add(seconds: number, processes: readonly ProcessReading[], limitBytes: number): void {
    const bytesByPid = new Map<number, number>();
    for (const { pid, usedBytes } of processes.slice(0, this.#maxProcesses)) {
      if (isKnown(usedBytes)) bytesByPid.set(pid, usedBytes);
    }
    for (const followed of [this.#detectors, this.#rests]) {
      for (const pid of followed.keys()) if (!bytesByPid.has(pid)) followed.delete(pid);
    }
    for (const [pid, bytes] of bytesByPid) this.#follow(pid, seconds, bytes, limitBytes);
    this.#times.push(seconds);
    if (this.#times.length >= 2 * timesKept) this.#times = this.#times.slice(-timesKept);
    this.#snapshots.push({ seconds, bytesByPid });
    if (this.#snapshots.length > snapshotsKept) {
      // Keep the recent half whole and every second one of the older half.
      const half = snapshotsKept / 2;
      this.#snapshots = this.#snapshots.filter((_, i) => i >= half || i % 2 === 0);
    }
  }

  #follow(pid: number, seconds: number, bytes: number, limitBytes: number): void {
    const known = this.#detectors.get(pid);
    if (known) {
      known.add(seconds, bytes, limitBytes);
      return;
    }
    const rest = this.#rests.get(pid);
    if (!rest) this.#rests.set(pid, { sinceSeconds: seconds, bytes });
    if (!rest || rest.bytes === bytes) return;
    const detector = createLeakDetector();
    for (const at of this.#times) {
      if (at >= rest.sinceSeconds) detector.add(at, rest.bytes, limitBytes);
    }
    detector.add(seconds, bytes, limitBytes);
    this.#rests.delete(pid);
    this.#detectors.set(pid, detector);
  }

  /** Of the processes that grow, what is known of it. */
  leaks(): ReadonlyMap<number, Leak> {
    const found = new Map<number, Leak>();
    for (const [pid, detector] of this.#detectors) {
      const leak = detector.leak();
      if (isGrowing(leak)) found.set(pid, leak);
    }
    return found;
  }

  /** Whether what the device gained since then went to others than its largest holder. */
  grewByNeighbour(sinceSeconds: number): boolean {
    const before = this.#snapshots.findLast((snapshot) => snapshot.seconds <= sinceSeconds);
    const now = this.#snapshots.at(-1);
    if (!before || !now || before === now || before.bytesByPid.size === 0) return false;
    const [owner] = [...before.bytesByPid].reduce((a, b) => (b[1] > a[1] ? b : a));
    let gained = 0;
    for (const [pid, bytes] of now.bytesByPid) {
      gained += Math.max(0, bytes - (before.bytesByPid.get(pid) ?? 0));
    }
    const ownGain = (now.bytesByPid.get(owner) ?? 0) - (before.bytesByPid.get(owner) ?? 0);
    return now.bytesByPid.has(owner) && gained > 0 && ownGain < ownShare * gained;
  }
}

/** What the cause is concluded from; all of it about one device, up to now. */
export interface CauseFacts {
  readonly seenSeconds: number;
  readonly leak: Leak;
  /** Rise of the second half over the first where memory grows steadily, else undefined. */
  readonly growthRatio: number | undefined;
  /** Whether most of the growth is due to another process than the one that was there first. */
  readonly byNeighbour: boolean;
  /** Levels left upwards for good. */
  readonly jumps: number;
  readonly spikes: boolean;
  /** The recent peak of what is held over the limit, 0 to 1. */
  readonly heldPeakShare: number;
  /** The recent peak of live bytes over that of what is held; undefined where it is unknown. */
  readonly livePeakShare: number | undefined;
}

const leastSeconds = 3;
/** Growth that keeps speeding up feeds on itself; a leak takes the same each time. */
const acceleratingRatio = 1.7;
const fewestJumps = 2;
/** Memory is short because of fragmentation when nearly all is held ... */
const heldNearly = 0.9;
/** ... and even at the peak of work this share of it would have served. */
const liveEnough = 0.85;

/** Why memory is, or becomes, short. The first that fits, from the most certain on. */
export function causeOf(facts: CauseFacts): Cause {
  if (facts.seenSeconds < leastSeconds) return 'unknown';
  const { growthRatio, livePeakShare } = facts;
  if (growthRatio !== undefined && facts.byNeighbour) return 'neighbour';
  if (growthRatio !== undefined && growthRatio >= acceleratingRatio) return 'growth';
  if (facts.leak.found === true) return 'leak';
  if (growthRatio !== undefined || facts.jumps >= fewestJumps) return 'growth';
  if (
    facts.heldPeakShare >= heldNearly &&
    livePeakShare !== undefined &&
    livePeakShare <= liveEnough
  ) {
    return 'fragmentation';
  }
  return facts.spikes ? 'spike' : 'none';
}

/** A step of this share of the limit from one cell to the next is a jump, not growth. */
const jumpShare = 0.08;
/** ... when the new level lasts for so many cells. */
const cellsKept = 4;
/** A spike reaches this many times the usual peak ... */
const spikeFactor = 1.4;
/** ... in at most this share of the cells. */
const spikeCellShare = 0.15;
/** Fewer cells say nothing about what is usual. */
const fewestCells = 12;

/** How often a level never seen before was reached all at once, and kept for some cells. */
export function jumpsUp(cells: readonly Cell[], limitBytes: number): number {
  let jumps = 0;
  let highest = cells[0]?.max ?? 0;
  for (let i = 1; i + cellsKept < cells.length; i++) {
    // The cell of the jump itself holds both levels: look at those after it.
    const next = cells.slice(i + 1, i + 1 + cellsKept).map((cell) => cell.min);
    const kept = Math.min(...next);
    if (kept - highest >= jumpShare * limitBytes) {
      jumps++;
      highest = kept;
    }
    highest = Math.max(highest, cells[i]?.max ?? 0);
  }
  return jumps;
}

/** Whether a few cells stand far above the usual peak, with the rest level. */
export function hasSpikes(cells: readonly Cell[]): boolean {
  if (cells.length < fewestCells) return false;
  const peaks = cells.map((cell) => cell.max);
  const usual = median(peaks);
  const high = peaks.filter((peak) => peak >= spikeFactor * usual).length;
  return high > 0 && high <= spikeCellShare * cells.length;
}
