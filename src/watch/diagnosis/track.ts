import { type Cell, Cells, cellSeconds, cellsPerLevel } from './cells.js';
import {
  columnsOf,
  type EnvelopePoint,
  fewestPoints,
  type Growth,
  steadyGrowth,
} from './growth.js';

/** Which edge of the series is followed: the peaks, or the floor that work returns to. */
export type Edge = 'peaks' | 'floor';

/** A smaller rise is noise of the readings themselves: this share of the limit ... */
const leastRiseShare = 0.0002;
/** ... and this much at least. */
const leastRiseBytes = 4 * 1024 ** 2;
/** Windows tried on each level, in cells; the longest that is steady wins, so it is tried first. */
const windowSizes = [32, 24, 16, 12] as const;
/** A point this many times the usual distance off a line, beside one step, is not on it. */
const offsetFactor = 3;
/** What has risen by the last quarter of a window, at least, where it rises steadily. */
const lateShare = 0.3;
/** A level is looked at again after the width of one of its cells. */
const refreshShare = 1;
/** A climb is taken for a repetition until it lasts this much longer than any before it. */
const repetitionFactor = 1.5;
/** The level of 1 s cells: what counts as recent, and as one piece of work. */
const recentLevel = 2;
const recentSeconds = 30;
/** A climb may pass the earlier peaks by this share of the limit and still be a repetition. */
const repetitionShare = 0.02;
/** ... or by this share of their own height: cycles differ. */
const repetitionHeightShare = 0.15;
/** Peaks of so many climbs make an envelope. */
const fewestClimbs = 3;
/** The pace of an envelope is that of so many cycles. */
const recentCycles = 2;

/** Windows are laid out here, one after the other: none is kept. */
const window = {
  seconds: new Float64Array(cellsPerLevel),
  bytes: new Float64Array(cellsPerLevel),
  begin: 0,
  end: 0,
};

/** How one series grows now: the current climb, or the envelope of a sawtooth. */
export interface TrackGrowth extends Growth {
  readonly shape: 'climb' | 'envelope';
}

/** The growth of an envelope, and what it was concluded from. */
interface Envelope {
  readonly last: Climb | undefined;
  readonly trough: EnvelopePoint | undefined;
  readonly growth: TrackGrowth | undefined;
}

/** One series followed at all scales; answers how it grows now, from the past alone. */
export class Track {
  readonly #cells: Cells;
  readonly #feeds: boolean;
  readonly #cycles = new Cycles();
  readonly #edge: Edge;
  readonly #whole: boolean;
  readonly #pace = new Pace();
  /** What each level answered last: a coarse one changes slowly and is not asked every time. */
  readonly #known: { atSeconds: number; from: number; growth: Growth | undefined }[] = [];
  #envelope: Envelope | undefined;
  #longest: Growth | undefined;
  #climb: TrackGrowth | undefined;
  #limitBytes = Number.NaN;
  #lastSeconds = Number.NaN;
  #lastBytes = Number.NaN;
  #second = Number.NaN;
  #lowest: EnvelopePoint = { seconds: Number.NaN, bytes: Number.NaN };

  /**
   * With `cells` given they are fed by their owner, before each `add`: two tracks may share them.
   * `whole` waits for a stretch of time to be over before it counts: surer, and a little later.
   */
  constructor(edge: Edge, cells?: Cells, whole = false) {
    this.#edge = edge;
    this.#whole = whole;
    this.#cells = cells ?? new Cells();
    this.#feeds = cells === undefined;
  }

  add(seconds: number, bytes: number, limitBytes: number): void {
    this.#limitBytes = limitBytes;
    this.#lastSeconds = seconds;
    this.#lastBytes = bytes;
    if (this.#feeds) this.#cells.add(seconds, bytes);
    if (this.#edge === 'peaks') this.#addPeak(seconds, bytes, limitBytes);
    else this.#addFloor(seconds, bytes, limitBytes);
  }

  #addPeak(seconds: number, bytes: number, limitBytes: number): void {
    const trough = this.#cycles.troughSeconds;
    this.#cycles.add(seconds, bytes, limitBytes);
    if (this.#cycles.troughSeconds !== trough) this.#pace.restart();
    this.#pace.add(seconds, bytes);
  }

  /** Work itself is a sawtooth; what counts for the floor is where it comes back to each second. */
  #addFloor(seconds: number, bytes: number, limitBytes: number): void {
    const second = Math.floor(seconds);
    if (second === this.#second && bytes >= this.#lowest.bytes) return;
    if (second !== this.#second && !Number.isNaN(this.#second)) {
      this.#cycles.add(this.#lowest.seconds, this.#lowest.bytes, limitBytes);
    }
    this.#second = second;
    this.#lowest = { seconds, bytes };
  }

  /** The highest value of the last half minute, or of all the time there is. */
  recentPeak(): number {
    return this.#cells.highestSince(recentLevel, this.#lastSeconds - recentSeconds);
  }

  /** The highest floor of any cell that ended before `seconds`, as far back as cells are kept. */
  highestFloorBefore(seconds: number): number {
    return this.#cells.highestFloorBefore(seconds);
  }

  /** The extremes of whole seconds from one time up to another, oldest first. */
  secondsBetween(fromSeconds: number, toSeconds: number): Cell[] {
    return this.#cells
      .level(recentLevel)
      .slice(0, -1)
      .filter((cell) => cell.firstSeconds >= fromSeconds && cell.lastSeconds < toSeconds);
  }

  /** A smaller rise is noise. */
  get leastRise(): number {
    return Math.max(leastRiseBytes, leastRiseShare * this.#limitBytes);
  }

  /** How often it came down again so far. */
  get climbs(): number {
    return this.#cycles.climbs.length;
  }

  /** When the climb that goes on now began, if it looks like those that came down again. */
  repeatsSince(): number | undefined {
    return this.#isRepetition(this.#envelopeGrowth()) ? this.#cycles.troughSeconds : undefined;
  }

  growth(): TrackGrowth | undefined {
    const envelope = this.#envelopeGrowth();
    const climb = this.#climbGrowth();
    if (!climb) return envelope;
    // Coarse cells would see a pause only after several of them.
    if (this.#edge === 'peaks' && this.#pace.hasPaused(this.#lastSeconds)) return envelope;
    if (!this.#isRepetition(envelope)) return climb;
    return envelope;
  }

  /** The longest window, of any scale, over which the current climb is steady. */
  #climbGrowth(): TrackGrowth | undefined {
    const from = this.#edge === 'peaks' ? this.#cycles.troughSeconds : Number.NEGATIVE_INFINITY;
    let longest: Growth | undefined;
    for (let level = this.#cells.usedLevels - 1; level >= 0; level--) {
      // Finer cells do not reach back as far: what they show is a part of it.
      if (longest && spanOf(longest) >= cellsPerLevel * cellSeconds(level)) break;
      const known = this.#known[level];
      const stale =
        !known ||
        known.from !== from ||
        this.#lastSeconds - known.atSeconds >= cellSeconds(level) * refreshShare;
      const growth = stale ? this.#levelGrowth(level, from) : known.growth;
      if (stale) this.#known[level] = { atSeconds: this.#lastSeconds, from, growth };
      if (growth && (!longest || spanOf(growth) > spanOf(longest))) longest = growth;
      // Where each cell holds one reading, finer ones hold the same again.
      if (this.#cells.isSingle(level)) break;
    }
    if (longest !== this.#longest) {
      this.#longest = longest;
      this.#climb = longest && { ...longest, shape: 'climb' };
    }
    return this.#climb;
  }

  #levelGrowth(level: number, from: number): Growth | undefined {
    if (!this.#mayGrow(level)) return undefined;
    const end = this.#cells.copyExtremes(level, this.#which, from, window, this.#whole);
    if (end < fewestPoints) return undefined;
    const leastRise = this.leastRise;
    window.end = end;
    let tried = -1;
    for (let i = 0; i < windowSizes.length; i++) {
      window.begin = Math.max(0, end - (windowSizes[i] ?? end));
      if (window.begin === tried) continue;
      tried = window.begin;
      const growth = steadyGrowth(window, leastRise);
      if (growth) return this.#extended(growth);
    }
    return undefined;
  }

  /** The same growth from where it really began: as far back as the points lie on its line. */
  #extended(growth: Growth): Growth {
    const tolerance = growth.stepBytes + offsetFactor * growth.offsetBytes;
    let first = window.begin;
    while (first > 0) {
      const seconds = window.seconds[first - 1] ?? 0;
      const line = growth.endBytes - growth.slope * (growth.toSeconds - seconds);
      if (Math.abs((window.bytes[first - 1] ?? 0) - line) > tolerance) break;
      first--;
    }
    if (first === window.begin) return growth;
    window.begin = first;
    return steadyGrowth(window, this.leastRise) ?? growth;
  }

  get #which(): 'min' | 'max' {
    return this.#edge === 'peaks' ? 'max' : 'min';
  }

  /**
   * Cheap, and true wherever a window could be steady: it rose enough, and most of the way before
   * its last quarter. Most of the time nothing does.
   */
  #mayGrow(level: number): boolean {
    const cells = this.#cells;
    const count = cells.count(level);
    const which = this.#which;
    const leastRise = this.leastRise;
    const now = cells.extreme(level, 0, which);
    for (let back = fewestPoints - 1; back < count; back++) {
      const before = cells.extreme(level, back, which);
      const rise = now - before;
      if (rise < leastRise) continue;
      if (cells.extreme(level, back >> 2, which) - before >= lateShare * rise) return true;
    }
    return false;
  }

  /** Growth from one climb to the next: of the peaks, or of the troughs that they start from. */
  #envelopeGrowth(): TrackGrowth | undefined {
    const { climbs, trough } = this.#cycles;
    if (climbs.length < fewestClimbs) return undefined;
    // It changes with a climb or its trough, which are rare.
    const known = this.#envelope;
    if (known && known.last === climbs.at(-1) && known.trough === trough) return known.growth;
    const growth = this.#envelopeOf(climbs, trough);
    this.#envelope = { last: climbs.at(-1), trough, growth };
    return growth;
  }

  #envelopeOf(
    climbs: readonly Climb[],
    trough: EnvelopePoint | undefined,
  ): TrackGrowth | undefined {
    // The first trough is where the series began, not one it came back to.
    const points =
      this.#edge === 'peaks'
        ? climbs.map((climb) => climb.peak)
        : [...climbs.slice(1).map((climb) => climb.trough), ...(trough ? [trough] : [])];
    const growth = steadyGrowth(columnsOf(points), this.leastRise, fewestClimbs);
    if (!growth) return undefined;
    // Each cycle adds about the same, and the pace of the cycles changes: the last ones count.
    const seconds = points.map((point) => point.seconds);
    const usual = ((seconds.at(-1) ?? 0) - (seconds[0] ?? 0)) / (seconds.length - 1);
    const lately = ((seconds.at(-1) ?? 0) - (seconds.at(-1 - recentCycles) ?? 0)) / recentCycles;
    const pace = lately > 0 ? usual / lately : 1;
    const curve = { ...growth.curve, endSlope: growth.curve.endSlope * pace };
    return { ...growth, curve, shape: 'envelope' };
  }

  /** Whether the current climb still looks like those that came down again. */
  #isRepetition(envelope: TrackGrowth | undefined): boolean {
    const climbs = this.#cycles.climbs;
    if (climbs.length === 0) return false;
    const longest = Math.max(...climbs.map((climb) => climb.peak.seconds - climb.trough.seconds));
    const highest = Math.max(...climbs.map((climb) => climb.peak.bytes));
    const height = Math.max(...climbs.map((climb) => climb.peak.bytes - climb.trough.bytes));
    const last = climbs.at(-1);
    const expected =
      envelope && last
        ? Math.max(
            highest,
            last.peak.bytes + envelope.slope * (this.#lastSeconds - last.peak.seconds),
          )
        : highest;
    const lasted = this.#lastSeconds - this.#cycles.troughSeconds;
    // Peaks are held against peaks, and floors against floors: work on top of a floor is no climb.
    const reached = this.#edge === 'peaks' ? this.#lastBytes : this.#lowest.bytes;
    return (
      lasted <= repetitionFactor * longest &&
      reached <=
        expected + Math.max(repetitionShare * this.#limitBytes, repetitionHeightShare * height)
    );
  }
}

export function spanOf(growth: Growth): number {
  return growth.toSeconds - growth.fromSeconds;
}

/** One climb of a sawtooth: from its trough to its peak. */
interface Climb {
  readonly trough: EnvelopePoint;
  readonly peak: EnvelopePoint;
}

/** A fall counts when it gives back this share of the limit: smaller ones are the work itself. */
const fallShareOfLimit = 0.1;
/** ... and this share of what had been climbed. */
const fallShareOfClimb = 0.35;
const climbsKept = 16;

/**
 * Follows the large swings of a series: an epoch that gathers and lets go, a cache that is emptied,
 * one job after another. What went up and came down before is no news when it goes up again.
 */
export class Cycles {
  readonly #climbs: Climb[] = [];
  #trough: EnvelopePoint | undefined;
  #peak: EnvelopePoint | undefined;

  add(seconds: number, bytes: number, limitBytes: number): void {
    const point = { seconds, bytes };
    if (!this.#trough || !this.#peak) {
      this.#trough = point;
      this.#peak = point;
      return;
    }
    if (bytes >= this.#peak.bytes) {
      this.#peak = point;
      return;
    }
    const drop = this.#peak.bytes - bytes;
    const climbed = this.#peak.bytes - this.#trough.bytes;
    if (drop >= fallShareOfLimit * limitBytes && drop >= fallShareOfClimb * climbed) {
      if (climbed >= fallShareOfLimit * limitBytes) {
        this.#climbs.push({ trough: this.#trough, peak: this.#peak });
        if (this.#climbs.length > climbsKept) this.#climbs.shift();
      }
      this.#trough = point;
      this.#peak = point;
      return;
    }
    if (bytes < this.#trough.bytes) {
      this.#trough = point;
      this.#peak = point;
    }
  }

  /** Climbs that ended in a fall, oldest first. */
  get climbs(): readonly Climb[] {
    return this.#climbs;
  }

  /** Where the climb that goes on now began. */
  get trough(): EnvelopePoint | undefined {
    return this.#trough;
  }

  get troughSeconds(): number {
    return this.#trough?.seconds ?? Number.NaN;
  }
}

/** Gaps between new highs that are remembered. */
const gapsKept = 16;
/** Nothing new for this many times the longest of them is a pause ... */
const pauseFactor = 2.5;
/** ... if it lasts this long at least. */
const leastPauseSeconds = 1;

/** How regularly a series reaches new highs, at the full fineness of its readings. */
export class Pace {
  readonly #gaps = new Float64Array(gapsKept);
  #rises = 0;
  #high = Number.NEGATIVE_INFINITY;
  #highSeconds = Number.NaN;

  add(seconds: number, bytes: number): void {
    if (bytes <= this.#high) return;
    if (this.#rises > 0) this.#gaps[this.#rises % gapsKept] = seconds - this.#highSeconds;
    this.#rises++;
    this.#high = bytes;
    this.#highSeconds = seconds;
  }

  /** The series came down: what it reached before does not count any more. */
  restart(): void {
    this.#gaps.fill(0);
    this.#rises = 0;
    this.#high = Number.NEGATIVE_INFINITY;
  }

  /** Whether it has been without a new high for much longer than it ever was lately. */
  hasPaused(nowSeconds: number): boolean {
    const longest = this.#gaps.reduce((most, gap) => Math.max(most, gap), 0);
    const since = nowSeconds - this.#highSeconds;
    return since > Math.max(leastPauseSeconds, pauseFactor * longest);
  }
}
