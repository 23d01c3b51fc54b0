import { Cells, cellSeconds } from './cells.js';
import { Cycles } from './cycles.js';
import { type EnvelopePoint, fewestPoints, type Growth, steadyGrowth } from './growth.js';
import { Pace } from './pace.js';

/** Which edge of the series is followed: the peaks, or the floor that work returns to. */
export type Edge = 'peaks' | 'floor';

/** A rise of less than this share of the limit is not worth a word. */
const leastRiseShare = 0.002;
/** Windows tried on each level, in cells; the longest that is steady wins, so it is tried first. */
const windowSizes = [32, 24, 16, 12] as const;
/** What has risen by the last quarter of a window, at least, where it rises steadily. */
const lateShare = 0.3;
/** A level is looked at again after this share of the width of its cells. */
const refreshShare = 1 / 2;
/** A climb is taken for a repetition until it lasts this much longer than any before it. */
const repetitionFactor = 1.5;
/** The level of 1 s cells: what counts as recent, and as one piece of work. */
const recentLevel = 2;
const recentSeconds = 30;
/** Peaks of so many climbs make an envelope. */
const fewestClimbs = 3;

/** How one series grows now: the current climb, or the envelope of a sawtooth. */
export interface TrackGrowth extends Growth {
  readonly shape: 'climb' | 'envelope';
}

/** One series followed at all scales; answers how it grows now, from the past alone. */
export class Track {
  readonly #cells: Cells;
  readonly #feeds: boolean;
  readonly #cycles = new Cycles();
  readonly #edge: Edge;
  readonly #pace = new Pace();
  /** What each level answered last: a coarse one changes slowly and is not asked every time. */
  readonly #known: { atSeconds: number; from: number; growth: Growth | undefined }[] = [];
  #limitBytes = Number.NaN;
  #lastSeconds = Number.NaN;
  #lastBytes = Number.NaN;
  #second = Number.NaN;
  #lowest: EnvelopePoint = { seconds: Number.NaN, bytes: Number.NaN };

  /** With `cells` given they are fed by their owner, before each `add`: two tracks may share them. */
  constructor(edge: Edge, cells?: Cells) {
    this.#edge = edge;
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
    const since = this.#lastSeconds - recentSeconds;
    const recent = this.#cells.level(recentLevel).filter((cell) => cell.lastSeconds >= since);
    return recent.reduce((peak, cell) => Math.max(peak, cell.max), 0);
  }

  /** The highest floor of any cell that ended before `seconds`, as far back as cells are kept. */
  highestFloorBefore(seconds: number): number {
    let highest = Number.NEGATIVE_INFINITY;
    for (let level = 0; level < this.#cells.usedLevels; level++) {
      for (const cell of this.#cells.level(level)) {
        if (cell.lastSeconds < seconds) highest = Math.max(highest, cell.min);
      }
    }
    return highest;
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
    return longest && { ...longest, shape: 'climb' };
  }

  #levelGrowth(level: number, from: number): Growth | undefined {
    if (!this.#mayGrow(level)) return undefined;
    const points = this.#points(level).filter((point) => point.seconds >= from);
    if (points.length < fewestPoints) return undefined;
    let tried = Number.NaN;
    for (const size of windowSizes) {
      const window = points.slice(-size);
      if (window.length === tried) continue;
      tried = window.length;
      const growth = steadyGrowth(window, leastRiseShare * this.#limitBytes);
      if (growth) return growth;
    }
    return undefined;
  }

  /**
   * Cheap, and true wherever a window could be steady: it rose enough, and most of the way before
   * its last quarter. Most of the time nothing does.
   */
  #mayGrow(level: number): boolean {
    const cells = this.#cells;
    const count = cells.count(level);
    const which = this.#edge === 'peaks' ? 'max' : 'min';
    const now = cells.extreme(level, 0, which);
    for (let back = fewestPoints - 1; back < count; back++) {
      const before = cells.extreme(level, back, which);
      const rise = now - before;
      if (rise < leastRiseShare * this.#limitBytes) continue;
      if (cells.extreme(level, back >> 2, which) - before >= lateShare * rise) return true;
    }
    return false;
  }

  #points(level: number): EnvelopePoint[] {
    return this.#cells
      .level(level)
      .map((cell) =>
        this.#edge === 'peaks'
          ? { seconds: cell.maxSeconds, bytes: cell.max }
          : { seconds: cell.minSeconds, bytes: cell.min },
      );
  }

  /** Growth from one climb to the next: of the peaks, or of the troughs that they start from. */
  #envelopeGrowth(): TrackGrowth | undefined {
    const { climbs } = this.#cycles;
    // The first trough is where the series began, not one it came back to.
    const points =
      this.#edge === 'peaks'
        ? climbs.map((climb) => climb.peak)
        : climbs.slice(1).map((climb) => climb.trough);
    const growth = steadyGrowth(points, leastRiseShare * this.#limitBytes, fewestClimbs);
    return growth && { ...growth, shape: 'envelope' };
  }

  /** Whether the current climb still looks like those that came down again. */
  #isRepetition(envelope: TrackGrowth | undefined): boolean {
    const climbs = this.#cycles.climbs;
    if (climbs.length === 0) return false;
    const longest = Math.max(...climbs.map((climb) => climb.peak.seconds - climb.trough.seconds));
    const highest = Math.max(...climbs.map((climb) => climb.peak.bytes));
    const last = climbs.at(-1);
    const expected =
      envelope && last
        ? Math.max(
            highest,
            last.peak.bytes + envelope.slope * (this.#lastSeconds - last.peak.seconds),
          )
        : highest;
    const lasted = this.#lastSeconds - this.#cycles.troughSeconds;
    return (
      lasted <= repetitionFactor * longest &&
      this.#lastBytes <= expected + leastRiseShare * 10 * this.#limitBytes
    );
  }
}

export function spanOf(growth: Growth): number {
  return growth.toSeconds - growth.fromSeconds;
}
