import { type Cells, cellSeconds, cellsPerLevel } from './cells.js';
import { timeToLimit } from './forecast-time.js';
import type { TrackGrowth } from './track.js';
import { spanOf } from './track.js';

/** When memory is full if one pattern goes on: seconds from now, Infinity where it never is. */
export interface PatternEnd {
  readonly seconds: number;
  /** For how long the pattern has been seen. */
  readonly spanSeconds: number;
  /** Bytes a second now. */
  readonly bytesPerSecond: number;
}

const never: PatternEnd = {
  seconds: Number.POSITIVE_INFINITY,
  spanSeconds: 0,
  bytesPerSecond: 0,
};

/** Levels of cells whose whole length is one window: 8 s, 32 s, two minutes, half an hour. */
const lineLevels = [0, 2, 4, 8] as const;

/** The least-squares line through the extremes of the cells of a level, and how well it fits. */
function lineThrough(
  cells: Cells,
  level: number,
  which: 'min' | 'max',
): { slope: number; fit: number; late: number } {
  const seconds = scratch.seconds;
  const bytes = scratch.bytes;
  const n = cells.copyExtremes(level, which, Number.NEGATIVE_INFINITY, scratch, which === 'min');
  if (n < 4) return { slope: 0, fit: 0, late: 0 };
  const slope = slopeOf(seconds, bytes, 0, n);
  return { slope: slope.slope, fit: slope.fit, late: slopeOf(seconds, bytes, n >> 1, n).slope };
}

const scratch = {
  seconds: new Float64Array(cellsPerLevel),
  bytes: new Float64Array(cellsPerLevel),
};

function slopeOf(
  seconds: Float64Array,
  bytes: Float64Array,
  begin: number,
  end: number,
): { slope: number; fit: number } {
  let t = 0;
  let y = 0;
  for (let i = begin; i < end; i++) {
    t += seconds[i] ?? 0;
    y += bytes[i] ?? 0;
  }
  t /= end - begin;
  y /= end - begin;
  let up = 0;
  let across = 0;
  let high = 0;
  for (let i = begin; i < end; i++) {
    const dt = (seconds[i] ?? 0) - t;
    const dy = (bytes[i] ?? 0) - y;
    up += dt * dy;
    across += dt * dt;
    high += dy * dy;
  }
  if (across === 0 || high === 0) return { slope: 0, fit: 0 };
  return { slope: up / across, fit: (up * up) / (across * high) };
}

/** A new height within this time of the one before belongs to the same stair, as a share of the usual wait. */
const stairShare = 0.25;
const stairsKept = 12;

/**
 * New heights of a series, put together to stairs: a rise, then a wait. Longer sequences, larger batches and
 * snapshots of weights grow like this, often by more each time.
 */
export class Stairs {
  readonly #stairs: { seconds: number; bytes: number }[] = [];
  #high = Number.NaN;
  #highSeconds = Number.NaN;

  add(seconds: number, bytes: number, leastRise: number): void {
    if (Number.isNaN(this.#high)) {
      this.#high = bytes;
      this.#highSeconds = seconds;
      this.#stairs.push({ seconds, bytes });
      return;
    }
    const first = this.#stairs[0]?.bytes ?? bytes;
    // What was taken has come back: stairs begin again from here.
    if (bytes < first || bytes < (first + this.#high) / 2 - leastRise) {
      this.#stairs.length = 0;
      this.#stairs.push({ seconds, bytes });
      this.#high = bytes;
      this.#highSeconds = seconds;
      return;
    }
    if (bytes < this.#high + leastRise) return;
    const last = this.#stairs.at(-1);
    const usual = this.#usualWait();
    const joins = last !== undefined && seconds - this.#highSeconds < stairShare * usual;
    if (joins && this.#stairs.length > 1) last.bytes = bytes;
    else this.#stairs.push({ seconds, bytes });
    if (this.#stairs.length > stairsKept) this.#stairs.shift();
    this.#high = bytes;
    this.#highSeconds = seconds;
  }

  #usualWait(): number {
    const first = this.#stairs[0];
    const last = this.#stairs.at(-1);
    const n = this.#stairs.length - 1;
    return first && last && n > 0 ? (last.seconds - first.seconds) / n : 0;
  }

  /** Seconds since the last new height. */
  waits(nowSeconds: number): number {
    return nowSeconds - this.#highSeconds;
  }

  /** The wait for the last new height, and the usual one. */
  get usualWait(): number {
    return this.#usualWait();
  }

  get count(): number {
    return this.#stairs.length - 1;
  }

  /** The tallest of the stairs that are kept. */
  get tallest(): number {
    let most = 0;
    for (let i = 1; i < this.#stairs.length; i++) most = Math.max(most, this.#rise(i));
    return most;
  }

  #rise(i: number): number {
    return (this.#stairs[i]?.bytes ?? 0) - (this.#stairs[i - 1]?.bytes ?? 0);
  }

  /** When so many bytes more are taken, if stairs go on to come and to change as the last ones did. */
  end(nowSeconds: number, roomBytes: number): PatternEnd {
    const n = this.#stairs.length;
    if (n < 4) return never;
    const half = n >> 1;
    let early = 0;
    let late = 0;
    for (let i = 1; i < n; i++) {
      if (i <= n - 1 - half) early += this.#rise(i);
      else late += this.#rise(i);
    }
    const earlyMean = early / Math.max(1, n - 1 - half);
    const lateMean = late / half;
    const ratio = Math.min(1.6, Math.max(0.6, (lateMean / earlyMean) ** (2 / (n - 1))));
    const wait = this.#usualWait();
    let rise = lateMean * ratio ** (half / 2);
    const bytesPerSecond = rise / wait;
    let left = roomBytes;
    let seconds = (this.#stairs.at(-1)?.seconds ?? 0) - nowSeconds;
    for (let count = 0; left > 0; count++) {
      if (count > 400 || rise < 1) return { ...never, bytesPerSecond };
      seconds += wait;
      left -= rise;
      rise *= ratio;
    }
    const spanSeconds = nowSeconds - (this.#stairs[0]?.seconds ?? 0);
    return { seconds: Math.max(0, seconds), spanSeconds, bytesPerSecond };
  }
}

/** The error of a pattern that never predicted. */
const unprovenError = 1;
/** How fast earlier errors are forgotten. */
const forgets = 0.4;
/** A prediction looks ahead by this share of what was seen. */
const aheadShare = 0.3;

/** A pattern predicts a rise before it is seen; its error is how far it was off, as a share, lately. */
export class Skill {
  #dueSeconds = Number.NaN;
  #predicted = 0;
  #base = 0;
  #error = unprovenError;
  #count = 0;

  /** `level` is what the prediction is about, as it is now. */
  look(nowSeconds: number, level: number, end: PatternEnd, leastRise: number): void {
    if (nowSeconds >= this.#dueSeconds) {
      const off = Math.abs(level - this.#base - this.#predicted);
      const error = Math.min(2, off / Math.max(this.#predicted, leastRise));
      this.#error = this.#count === 0 ? error : this.#error + forgets * (error - this.#error);
      this.#count += 1;
      this.#dueSeconds = Number.NaN;
    }
    if (!Number.isNaN(this.#dueSeconds) || end.bytesPerSecond <= 0) return;
    const ahead = Math.max(1, aheadShare * end.spanSeconds);
    this.#dueSeconds = nowSeconds + ahead;
    this.#base = level;
    this.#predicted = end.bytesPerSecond * ahead;
  }

  get error(): number {
    return this.#error;
  }

  get count(): number {
    return this.#count;
  }
}

/** All that is known at one time, as numbers without a unit: what the table of probabilities weighs. */
export interface Evidence {
  readonly nowSeconds: number;
  readonly seenSeconds: number;
  readonly limitBytes: number;
  readonly heldBytes: number;
  readonly liveBytes: number | undefined;
  readonly peakHeld: number;
  readonly peakLive: number | undefined;
  readonly held: TrackGrowth | undefined;
  readonly live: TrackGrowth | undefined;
  readonly isRepetition: boolean;
  readonly climbs: number;
}

const farSeconds = 1e5;
const log = (value: number): number => Math.log(Math.min(farSeconds, Math.max(0.01, value)));

/**
 * The patterns that compete: growth that goes on along a line or a curve, of what is held and of the floor of
 * what is live; stairs; lines through the last seconds and minutes. Each predicts, and is known by its errors.
 */
export class Patterns {
  readonly stairs = new Stairs();
  readonly #skills = {
    held: new Skill(),
    live: new Skill(),
    stairs: new Skill(),
    line: new Skill(),
  };
  #stairs = { end: never, error: unprovenError };
  #stops = 0;
  #longestStopped = 0;
  #grewFor = 0;

  constructor(
    private readonly heldCells: Cells,
    private readonly liveCells: Cells,
  ) {}

  /** Once for each conclusion: what the table weighs, in the order of `featureNames`. */
  features(e: Evidence): Float64Array {
    const room = Math.max(1, e.limitBytes - e.heldBytes);
    const leastRise = Math.max(1, 0.002 * e.limitBytes);
    const held = endOf(e.held, e.nowSeconds, e.limitBytes);
    const above =
      e.live && e.peakLive !== undefined ? Math.max(0, e.peakLive - e.live.endBytes) : 0;
    const live = endOf(e.live, e.nowSeconds, e.limitBytes - above);
    const stairs = this.stairs.end(e.nowSeconds, room);
    const lines = lineLevels.map((level) => lineThrough(this.heldCells, level, 'max'));
    const floors = lineLevels.map((level) =>
      e.liveBytes === undefined
        ? { slope: 0, fit: 0, late: 0 }
        : lineThrough(this.liveCells, level, 'min'),
    );
    const [line = { slope: 0, fit: 0, late: 0 }] = lines.slice(1);
    const lineEnd: PatternEnd = {
      seconds: line.slope > 0 ? room / line.slope : Number.POSITIVE_INFINITY,
      spanSeconds: cellSeconds(2) * cellsPerLevel,
      bytesPerSecond: line.slope,
    };
    const s = this.#skills;
    s.held.look(e.nowSeconds, e.peakHeld, held, leastRise);
    s.live.look(e.nowSeconds, e.live?.endBytes ?? e.liveBytes ?? 0, live, leastRise);
    s.stairs.look(e.nowSeconds, e.peakHeld, stairs, leastRise);
    s.line.look(e.nowSeconds, e.peakHeld, lineEnd, leastRise);
    this.#stairs = { end: stairs, error: s.stairs.error };
    this.#remember(Math.max(held.spanSeconds, live.spanSeconds));
    const waits = this.stairs.waits(e.nowSeconds);
    const usual = this.stairs.usualWait;
    return Float64Array.of(
      log(held.seconds),
      log(live.seconds),
      log(stairs.seconds),
      ...lines.map(({ slope }) => log(slope > 0 ? room / slope : farSeconds)),
      ...lines.map(({ late }) => log(late > 0 ? room / late : farSeconds)),
      ...lines.map(({ fit }) => fit),
      ...floors.map(({ slope }) => log(slope > 0 ? room / slope : farSeconds)),
      ...floors.map(({ fit }) => fit),
      log(held.spanSeconds),
      log(live.spanSeconds),
      log(e.seenSeconds),
      e.heldBytes / e.limitBytes,
      e.liveBytes === undefined ? -1 : e.liveBytes / e.limitBytes,
      e.peakLive === undefined ? -1 : e.peakLive / e.limitBytes,
      e.held ? Math.log(e.held.ratio) : 0,
      e.live ? Math.log(e.live.ratio) : 0,
      e.isRepetition ? 1 : 0,
      e.climbs,
      s.held.error,
      s.live.error,
      s.stairs.error,
      s.line.error,
      Math.min(9, s.held.count),
      this.stairs.count,
      this.stairs.tallest / room,
      log(waits),
      log(waits / Math.max(usual, 0.01)),
      this.#stops,
      Math.log((1 + Math.max(held.spanSeconds, live.spanSeconds)) / (1 + this.#longestStopped)),
      e.held && e.nowSeconds - e.held.fromSeconds > e.seenSeconds - 1 ? 1 : 0,
    );
  }

  /** The end that stairs expect, and their error lately. */
  stairsNow(): { readonly end: PatternEnd; readonly error: number } {
    return this.#stairs;
  }

  #remember(span: number): void {
    if (span === 0 && this.#grewFor > 0) {
      this.#stops += 1;
      this.#longestStopped = Math.max(this.#longestStopped, this.#grewFor);
    }
    this.#grewFor = span;
  }
}

function endOf(growth: TrackGrowth | undefined, now: number, limitBytes: number): PatternEnd {
  if (!growth) return never;
  const { seconds, bytesPerSecond } = timeToLimit(growth, now, limitBytes);
  return { seconds, spanSeconds: spanOf(growth), bytesPerSecond };
}
