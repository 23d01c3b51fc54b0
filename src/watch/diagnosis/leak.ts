import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import type { Leak } from '../types.js';
import type { Cells } from './cells.js';
import {
  followsWork,
  hasStalled,
  isUneven,
  keepsNewRate,
  lastRiseSeconds,
} from './leak-evidence.js';
import { spanOf, Track, type TrackGrowth } from './track.js';
import { Troughs } from './troughs.js';

/** Shorter growth is work, not a leak. */
const leastSeconds = 10;
/** The conclusion must hold this long: noise that wanders up turns round before. */
const confirmSeconds = 8;
/** Loads and warm-ups of this length are usual: a straight growth must outlast them ... */
const settleSeconds = 25;
/** ... and a little more where it began with the first readings, as starts do ... */
const startSettleSeconds = 27;
const startSeconds = 5;
/** ... and much more where nothing was freed, or only lately, and the rate is uneven: files are read ... */
const loadSettleSeconds = 60;
/** ... unless live memory took this share of all there is: it did not settle below the limit ... */
const nearlyFullShare = 0.9;
/** ... or steady work was seen before a strong growth: then nothing starts any more. */
const strongSeconds = 12;
const confirmStrongSeconds = 3;
/** That it slowed down once only was seen over all of it. */
const confirmSlowedSeconds = 5;
/** For a sawtooth the cycles themselves are the proof; only its last fall must be over. */
const confirmEnvelopeSeconds = 1;
/** Before this, that none was found says nothing. */
const knownSeconds = leastSeconds + confirmSeconds;
/** The suspicion stands in spite of interruptions of this length. */
const interruptionSeconds = 4;
/** A leak is over when this share of what it took has come back ... */
const givenBackShare = 0.5;
/** ... or when nothing grew for this share of the time that it did. */
const quietShare = 0.5;
/** ... or when its second half rose by less than this share of the first: it settles. */
const settlingRatio = 0.7;
/** New conclusions are drawn this often in the time of the points. */
const concludeSeconds = 1;

export interface LeakDetector {
  add(seconds: number, bytes: number, limitBytes: number): void;
  leak(): Leak;
}

/**
 * Finds memory that grows without coming back, in the floor that work returns to. It says that
 * there is a leak when the growth is steady, lasts, does not slow down, and leaves behind
 * everything that was seen before it; that there is none when nothing grows; and `unknown` for all
 * growth in between, which may be a start. `cells`, where given, hold the same series and are fed by
 * their owner. Live memory jumps about with the work: with `live` a single rise
 * counts only where it is higher than ever.
 *
 * @example
 * const detector = createLeakDetector();
 * for (const [seconds, bytes] of readings) detector.add(seconds, bytes, capacity);
 * detector.leak().found; // true, false, or 'unknown' while it cannot be told
 */
export function createLeakDetector({
  cells,
  live = false,
}: {
  readonly cells?: Cells;
  readonly live?: boolean;
} = {}): LeakDetector {
  const floor = new Track('floor', cells, true);
  const rises = live ? new NewHeights() : new Rises();
  const troughs = new Troughs();
  let firstSeconds = Number.NaN;
  let latest = { seconds: Number.NaN, bytes: Number.NaN, limitBytes: Number.NaN };
  let concludedSeconds = Number.NEGATIVE_INFINITY;
  let suspectedSeconds = Number.NaN;
  let lastSuspectedSeconds = Number.NaN;
  /** When memory in use first fell: work frees what it took, loading does not. */
  let firstFallSeconds = Number.POSITIVE_INFINITY;
  /** Steady work was seen before the growth that is suspected. */
  let strong = false;
  let found: TrackGrowth | undefined;
  /** Growth that may be a leak, or may not. */
  let doubtful: TrackGrowth | undefined;
  let doubtfulSeconds = Number.NaN;

  function conclude(): void {
    const growth = floor.growth();
    const cycles = growth?.slowsDown ? undefined : troughs.growth(floor.leastRise);
    if (cycles) {
      suspect(cycles);
      if (found) return;
    }
    if (growth && leavesBehind(growth)) {
      doubtful = growth;
      doubtfulSeconds = latest.seconds;
      if (isSteady(growth)) {
        suspect(growth);
        return;
      }
    } else if (latest.seconds - doubtfulSeconds > interruptionSeconds) doubtful = undefined;
    if (found && isOver(found, growth)) found = undefined;
  }

  function isSteady(growth: TrackGrowth): boolean {
    if (spanOf(growth) < leastSeconds) return false;
    if (growth.shape === 'envelope' && !troughs.peaksFollow(growth)) return false;
    return !growth.slowsDown || keepsNewRate(floor, growth);
  }

  function suspect(growth: TrackGrowth): void {
    if (!(latest.seconds - lastSuspectedSeconds <= interruptionSeconds)) {
      suspectedSeconds = latest.seconds;
      strong = false;
    }
    strong ||= growth.shape === 'climb' && followsWork(floor, growth, latest.limitBytes);
    lastSuspectedSeconds = latest.seconds;
    if (neededSeconds(growth) > 0) return;
    if (growth.shape === 'envelope' || !hasStalled(floor, growth)) found = growth;
  }

  /** A repetition of what was there before is no growth. */
  function leavesBehind(growth: TrackGrowth): boolean {
    if (growth.shape === 'envelope') return true;
    const before = floor.highestFloorBefore(growth.fromSeconds);
    return growth.endBytes - growth.riseBytes / 2 >= before;
  }

  /** How much longer a growth must go on like this to be a leak. */
  function neededSeconds(growth: TrackGrowth): number {
    const suspected = latest.seconds - suspectedSeconds;
    const holds = latest.seconds - lastSuspectedSeconds <= interruptionSeconds ? suspected : 0;
    if (growth.shape === 'envelope') return confirmEnvelopeSeconds - holds;
    // The second that is not over yet is left out of the span.
    const lasted = Math.min(latest.seconds - growth.fromSeconds, spanOf(growth) + 1);
    if (strong) {
      return Math.max(confirmStrongSeconds - holds, strongSeconds - lasted);
    }
    const confirm = growth.slowsDown ? confirmSlowedSeconds : confirmSeconds;
    // A load that is over stays flat: what counts is how long it rose, not how long it was there.
    const rose = Math.min(lasted, lastRiseSeconds(floor, growth) + 1 - growth.fromSeconds);
    return Math.max(confirm - holds, settledAfter(growth) - rose);
  }

  function settledAfter(growth: TrackGrowth): number {
    if (live && latest.bytes >= nearlyFullShare * latest.limitBytes) return knownSeconds;
    const withStart = growth.fromSeconds - firstSeconds < startSeconds;
    if (!withStart) return settleSeconds;
    const works = latest.seconds - firstFallSeconds >= leastSeconds;
    const loads = live && !works && isUneven(floor, growth);
    return loads ? loadSettleSeconds : startSettleSeconds;
  }

  function isOver(leak: TrackGrowth, growth: TrackGrowth | undefined): boolean {
    const back = leak.endBytes - latest.bytes;
    const quiet = latest.seconds - leak.toSeconds;
    return (
      back > givenBackShare * leak.riseBytes ||
      quiet > Math.max(leastSeconds, quietShare * spanOf(leak)) ||
      (growth !== undefined && growth.slowsDown && growth.ratio < settlingRatio)
    );
  }

  return {
    add(seconds, bytes, limitBytes) {
      if (Number.isNaN(firstSeconds)) firstSeconds = seconds;
      if (bytes < latest.bytes) firstFallSeconds = Math.min(firstFallSeconds, seconds);
      latest = { seconds, bytes, limitBytes };
      floor.add(seconds, bytes, limitBytes);
      troughs.add(seconds, bytes);
      rises.add(seconds, bytes, limitBytes);
      if (seconds - concludedSeconds < concludeSeconds) return;
      concludedSeconds = seconds;
      conclude();
    },
    leak() {
      if (found) return leakFound(found);
      if (doubtful) {
        // What slows down is told from a leak when as much time has passed again.
        const watch = doubtful.slowsDown ? spanOf(doubtful) : neededSeconds(doubtful);
        const why = doubtful.slowsDown ? 'slows' : 'young';
        return leakUnknown(
          {
            why,
            bytesPerSecond: doubtful.slope,
            grownBytes: doubtful.riseBytes,
            sinceSeconds: doubtful.fromSeconds,
            forSeconds: latest.seconds - doubtful.fromSeconds,
          },
          watch,
        );
      }
      const beginning = troughs.beginning(floor.leastRise);
      if (beginning) {
        const { from, to } = beginning;
        const grownBytes = to.bytes - from.bytes;
        const cycleSeconds = (to.seconds - from.seconds) / 2;
        return leakUnknown(
          {
            why: 'young',
            bytesPerSecond: grownBytes / (to.seconds - from.seconds),
            grownBytes,
            sinceSeconds: from.seconds,
            forSeconds: latest.seconds - from.seconds,
          },
          to.seconds + cycleSeconds - latest.seconds,
        );
      }
      const rise = rises.recent(latest.seconds);
      if (rise) {
        const forSeconds = latest.seconds - rise.sinceSeconds;
        return leakUnknown(
          {
            why: live ? 'higher' : 'rose',
            bytesPerSecond: rise.bytes / Math.max(1, forSeconds),
            grownBytes: rise.bytes,
            sinceSeconds: rise.sinceSeconds,
            forSeconds,
          },
          rise.quietSeconds,
        );
      }
      const seen = latest.seconds - firstSeconds;
      return seen >= knownSeconds ? leakNone(seen) : leakUnknown(undefined, knownSeconds, seen);
    },
  };
}

/** What is in use for so many seconds in a row is not the peak of a piece of work. */
const stretchSeconds = 5;
/** A smaller rise of the floor is noise: this share of the limit. */
const leastShare = 0.02;
/** Nothing new for this long: it has stopped rising ... */
const quietSeconds = 10;
/** ... or for this many times the usual pause, where it rises again and again. */
const quietFactor = 1.5;
const risesKept = 4;

interface Rise {
  readonly seconds: number;
  readonly bytes: number;
}

/** Rises of the floor that are not over yet, even or not. */
interface RecentRise {
  readonly sinceSeconds: number;
  readonly bytes: number;
  /** How long nothing more must rise until it counts as over. */
  readonly quietSeconds: number;
}

/**
 * Follows the floor of a series in the coarsest way: when did it last reach a height never seen
 * before? It sees jumps and stairs, which steady growth leaves out.
 */
class Rises {
  /** The lowest value of each of the last seconds that had a reading. */
  readonly #lows: number[] = [];
  #rises: Rise[] = [];
  #second = Number.NaN;
  #highest = Number.NaN;

  add(seconds: number, bytes: number, limitBytes: number): void {
    const second = Math.floor(seconds);
    const last = this.#lows.length - 1;
    if (second === this.#second) {
      this.#lows[last] = Math.min(this.#lows[last] ?? bytes, bytes);
      return;
    }
    this.#second = second;
    if (this.#lows.length >= stretchSeconds) this.#take(seconds, limitBytes);
    this.#lows.push(bytes);
    if (this.#lows.length > stretchSeconds) this.#lows.shift();
  }

  #take(seconds: number, limitBytes: number): void {
    const floor = Math.min(...this.#lows);
    if (Number.isNaN(this.#highest)) this.#highest = floor;
    const bytes = floor - this.#highest;
    if (bytes < leastShare * limitBytes) return;
    this.#highest = floor;
    // It was there for the whole stretch before it counted.
    this.#rises.push({ seconds: seconds - stretchSeconds, bytes });
    if (this.#rises.length > risesKept) this.#rises = this.#rises.slice(-risesKept);
  }

  /** The rises up to now, unless the last of them is over or has come back. */
  recent(nowSeconds: number): RecentRise | undefined {
    const last = this.#rises.at(-1);
    if (!last) return undefined;
    const gaps = this.#rises
      .slice(1)
      .map((rise, i) => rise.seconds - (this.#rises[i]?.seconds ?? 0));
    const usual = gaps.length >= 2 ? Math.max(...gaps.slice(-2)) : 0;
    const quiet = Math.max(quietSeconds, quietFactor * usual);
    const left = last.seconds + quiet - nowSeconds;
    if (left <= 0) return undefined;
    // Those that belong together follow one another without such a pause.
    let first = this.#rises.length - 1;
    while (first > 0 && (gaps[first - 1] ?? 0) <= quiet) first--;
    const together = this.#rises.slice(first);
    const bytes = together.reduce((sum, rise) => sum + rise.bytes, 0);
    const back = this.#highest - (this.#lows.at(-1) ?? this.#highest);
    if (back > givenBackShare * bytes) return undefined;
    return { sinceSeconds: together[0]?.seconds ?? last.seconds, bytes, quietSeconds: left };
  }
}

/** A new height says nothing any more after this long, unless a higher one followed. */
const heightSeconds = 5;
/** Less is the usual difference between pieces of work: this share of the limit. */
const heightShare = 0.03;
/** It is new against all but the last seconds: a growth takes a few to stand out. */
const freshSeconds = 3;

/**
 * Remembers when a series was last clearly higher than ever before. It is the first sign of a growth
 * below work that swings, and shows before the floor does.
 */
class NewHeights {
  /** The highest values of the last seconds, the present one last. */
  readonly #fresh: number[] = [];
  #second = Number.NaN;
  #settled = Number.NaN;
  #last: Rise | undefined;

  add(seconds: number, bytes: number, limitBytes: number): void {
    const second = Math.floor(seconds);
    if (second === this.#second) {
      const last = this.#fresh.length - 1;
      this.#fresh[last] = Math.max(this.#fresh[last] ?? bytes, bytes);
    } else {
      this.#second = second;
      this.#fresh.push(bytes);
      const over = this.#fresh.length > freshSeconds ? this.#fresh.shift() : undefined;
      if (over !== undefined && !(over <= this.#settled)) this.#settled = over;
    }
    const rise = bytes - this.#settled;
    if (rise >= heightShare * limitBytes) this.#last = { seconds, bytes: rise };
  }

  recent(nowSeconds: number): RecentRise | undefined {
    if (!this.#last) return undefined;
    const { seconds, bytes } = this.#last;
    const left = seconds + heightSeconds - nowSeconds;
    return left > 0 ? { sinceSeconds: seconds, bytes, quietSeconds: left } : undefined;
  }
}

/** Growth of which it cannot be told yet whether it is a leak. */
interface DoubtfulGrowth {
  /** Not seen long enough, getting slower, a rise in jumps, or work higher than ever. */
  readonly why: 'young' | 'slows' | 'rose' | 'higher';
  readonly bytesPerSecond: number;
  readonly grownBytes: number;
  readonly sinceSeconds: number;
  readonly forSeconds: number;
}

function leakFound(growth: TrackGrowth): Leak {
  const seconds = growth.toSeconds - growth.fromSeconds;
  return {
    found: true,
    bytesPerSecond: Math.round(growth.slope),
    confidence: confidenceIn(growth),
    grownBytes: Math.round(growth.riseBytes),
    sinceSeconds: growth.fromSeconds,
    watchSeconds: 0,
    reason:
      `What stays in use grew by ${formatBytes(Math.round(growth.riseBytes))} in ` +
      `${formatSeconds(seconds)} without coming back.`,
  };
}

function leakNone(seenSeconds: number): Leak {
  return {
    found: false,
    bytesPerSecond: 0,
    confidence: Math.round(Math.min(0.95, seenSeconds / (seenSeconds + 20)) * 100) / 100,
    grownBytes: 0,
    sinceSeconds: 'unknown',
    watchSeconds: 0,
    reason: `What stays in use did not grow in the ${formatSeconds(seenSeconds)} seen.`,
  };
}

/** Too little was seen, or memory grows in a way that may be a start. */
function leakUnknown(
  growth: DoubtfulGrowth | undefined,
  watchSeconds: number,
  seenSeconds = Number.NaN,
): Leak {
  const known = {
    found: 'unknown' as const,
    confidence: 0,
    watchSeconds: Math.max(1, Math.ceil(watchSeconds - (growth ? 0 : seenSeconds || 0))),
  };
  if (growth) {
    const { bytesPerSecond, grownBytes, sinceSeconds } = growth;
    return {
      ...known,
      bytesPerSecond: Math.round(bytesPerSecond),
      grownBytes: Math.round(grownBytes),
      sinceSeconds,
      reason: `${doubtWords(growth)} Watch for ${formatSeconds(known.watchSeconds)} more.`,
    };
  }
  return {
    ...known,
    bytesPerSecond: 'unknown',
    grownBytes: 'unknown',
    sinceSeconds: 'unknown',
    reason: Number.isNaN(seenSeconds)
      ? 'Nothing has been read yet.'
      : `Only ${formatSeconds(seenSeconds)} seen; ${formatSeconds(watchSeconds)} are needed.`,
  };
}

function doubtWords({ why, grownBytes, forSeconds }: DoubtfulGrowth): string {
  const grown = formatBytes(Math.round(grownBytes));
  if (why === 'rose') {
    return `What stays in use rose by ${grown} in the last ${formatSeconds(forSeconds)}.`;
  }
  if (why === 'higher') {
    return `Memory in use was ${grown} higher than ever before, ${formatSeconds(forSeconds)} ago.`;
  }
  // The rate beside them would be that of a line through all points: another figure.
  const grew = `What stays in use grew by ${grown} in ${formatSeconds(forSeconds)}`;
  return why === 'slows'
    ? `${grew}, and slows down: it may be a warm-up.`
    : `${grew}: it may still be a start.`;
}

/** Many steps close to the line make for confidence. */
function confidenceIn(growth: TrackGrowth): number {
  const evenness = 1 - Math.min(1, (4 * growth.offsetBytes) / growth.riseBytes);
  const evidence = growth.rises / (growth.rises + 3);
  return Math.round(Math.min(0.99, evenness * evidence) * 100) / 100;
}
