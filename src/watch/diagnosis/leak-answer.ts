import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import type { Leak } from '../types.js';
import type { TrackGrowth } from './track.js';

/** Growth of which it cannot be told yet whether it is a leak. */
interface DoubtfulGrowth {
  /** Not seen long enough, getting slower, a rise in jumps, or work higher than ever. */
  readonly why: 'young' | 'slows' | 'rose' | 'higher';
  readonly bytesPerSecond: number;
  readonly grownBytes: number;
  readonly sinceSeconds: number;
  readonly forSeconds: number;
}

export function leakFound(growth: TrackGrowth): Leak {
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

export function leakNone(seenSeconds: number): Leak {
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
export function leakUnknown(
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

function doubtWords({ why, bytesPerSecond, grownBytes, forSeconds }: DoubtfulGrowth): string {
  const grown = formatBytes(Math.round(grownBytes));
  if (why === 'rose') {
    return `What stays in use rose by ${grown} in the last ${formatSeconds(forSeconds)}.`;
  }
  if (why === 'higher') {
    return `Memory in use was ${grown} higher than ever before, ${formatSeconds(forSeconds)} ago.`;
  }
  const grows =
    `What stays in use grows by ${formatBytes(Math.round(bytesPerSecond))} a second, ` +
    `${grown} in ${formatSeconds(forSeconds)}`;
  return why === 'slows'
    ? `${grows}, and slows down: it may be a warm-up.`
    : `${grows}: it may still be a start.`;
}

/** Many steps close to the line make for confidence. */
function confidenceIn(growth: TrackGrowth): number {
  const evenness = 1 - Math.min(1, (4 * growth.offsetBytes) / growth.riseBytes);
  const evidence = growth.rises / (growth.rises + 3);
  return Math.round(Math.min(0.99, evenness * evidence) * 100) / 100;
}
