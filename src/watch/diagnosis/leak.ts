import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import type { Leak } from '../types.js';
import type { Cells } from './cells.js';
import { Track, type TrackGrowth } from './track.js';

/** Shorter growth is work, not a leak. */
const leastSeconds = 10;
/** Less than this is noise of the readings themselves. */
const leastRiseBytes = 4 * 1024 ** 2;
/** A second half that rose less than this, held against the first, is levelling off. */
const slowestRatio = 0.5;
/** The conclusion must hold this long: noise that wanders up turns round before. */
const confirmSeconds = 8;
/** Before this, that none was found says nothing. */
const knownSeconds = leastSeconds + confirmSeconds;
/** The suspicion stands in spite of interruptions of this length. */
const interruptionSeconds = 3;
/** A leak is over when this share of what it took has come back ... */
const givenBackShare = 0.5;
/** ... or when nothing grew for this share of the time that it did. */
const quietShare = 0.5;
/** New conclusions are drawn this often in the time of the points. */
const concludeSeconds = 1;

export interface LeakDetector {
  add(seconds: number, bytes: number, limitBytes: number): void;
  leak(): Leak;
}

/**
 * Finds memory that grows without coming back, in the floor that work returns to. Autocorrelated
 * noise wanders up for a while too, so a growth must be steady, last, and leave behind everything
 * that was seen before it. `cells`, where given, hold the same series and are fed by their owner.
 *
 * @example
 * const detector = createLeakDetector();
 * for (const [seconds, bytes] of readings) detector.add(seconds, bytes, capacity);
 * detector.leak().found; // true, false, or 'unknown' while there is too little to go by
 */
export function createLeakDetector(cells?: Cells): LeakDetector {
  const floor = new Track('floor', cells);
  let firstSeconds = Number.NaN;
  let latest = { seconds: Number.NaN, bytes: Number.NaN };
  let concludedSeconds = Number.NEGATIVE_INFINITY;
  let suspectedSeconds = Number.NaN;
  let lastSuspectedSeconds = Number.NaN;
  let found: TrackGrowth | undefined;

  function conclude(): void {
    const growth = floor.growth();
    if (growth && isLeak(growth, floor.highestFloorBefore(growth.fromSeconds))) {
      if (!(latest.seconds - lastSuspectedSeconds <= interruptionSeconds)) {
        suspectedSeconds = latest.seconds;
      }
      lastSuspectedSeconds = latest.seconds;
      if (latest.seconds - suspectedSeconds >= confirmSeconds) found = growth;
      return;
    }
    if (!found) return;
    const back = found.endBytes - latest.bytes;
    const quiet = latest.seconds - found.toSeconds;
    const over =
      back > givenBackShare * found.riseBytes ||
      quiet > Math.max(leastSeconds, quietShare * (found.toSeconds - found.fromSeconds));
    if (over) found = undefined;
  }

  return {
    add(seconds, bytes, limitBytes) {
      if (Number.isNaN(firstSeconds)) firstSeconds = seconds;
      latest = { seconds, bytes };
      floor.add(seconds, bytes, limitBytes);
      if (seconds - concludedSeconds < concludeSeconds) return;
      concludedSeconds = seconds;
      conclude();
    },
    leak() {
      if (found) return leakOf(found);
      const seen = latest.seconds - firstSeconds;
      return seen >= knownSeconds ? none(seen) : unknown(seen);
    },
  };
}

function isLeak(growth: TrackGrowth, highestBefore: number): boolean {
  const { fromSeconds, toSeconds, riseBytes, endBytes, ratio, shape } = growth;
  return (
    toSeconds - fromSeconds >= leastSeconds &&
    riseBytes >= leastRiseBytes &&
    ratio >= slowestRatio &&
    (shape === 'envelope' || endBytes - riseBytes / 2 >= highestBefore)
  );
}

function leakOf(growth: TrackGrowth): Leak {
  const seconds = growth.toSeconds - growth.fromSeconds;
  return {
    found: true,
    bytesPerSecond: Math.round(growth.slope),
    confidence: confidenceIn(growth),
    grownBytes: Math.round(growth.riseBytes),
    sinceSeconds: growth.fromSeconds,
    reason:
      `What stays in use grew by ${formatBytes(Math.round(growth.riseBytes))} in ` +
      `${formatSeconds(seconds)} without coming back.`,
  };
}

/** Many steps close to the line make for confidence. */
function confidenceIn(growth: TrackGrowth): number {
  const evenness = 1 - Math.min(1, (4 * growth.offsetBytes) / growth.riseBytes);
  const evidence = growth.rises / (growth.rises + 3);
  return Math.round(Math.min(0.99, evenness * evidence) * 100) / 100;
}

function none(seenSeconds: number): Leak {
  return {
    found: false,
    bytesPerSecond: 0,
    confidence: Math.round(Math.min(0.95, seenSeconds / (seenSeconds + 20)) * 100) / 100,
    grownBytes: 0,
    sinceSeconds: 'unknown',
    reason: `What stays in use did not grow steadily in the ${formatSeconds(seenSeconds)} seen.`,
  };
}

function unknown(seenSeconds: number): Leak {
  return {
    found: 'unknown',
    bytesPerSecond: 'unknown',
    confidence: 0,
    grownBytes: 'unknown',
    sinceSeconds: 'unknown',
    reason: Number.isNaN(seenSeconds)
      ? 'Nothing has been read yet.'
      : `Only ${formatSeconds(seenSeconds)} seen; ${knownSeconds} s are needed.`,
  };
}
