import { isKnown, type Known } from '../../../../src/units/known.js';
import type { DeviceHistory } from '../../api/types.js';

/** Buckets of a chart: about as many as it has pixels to show them. */
const bucketsShown = 400;
/** Silence of more buckets than this is a gap in the line. */
const gapBuckets = 4;

/** Use over time in buckets of equal length: peaks and troughs stay, however often it was read. */
export interface UseHistory {
  readonly windowMs: number;
  readonly stepMs: number;
  /** Start of each bucket, rising. */
  readonly epochMs: readonly number[];
  readonly min: readonly (number | null)[];
  readonly max: readonly (number | null)[];
}

export function emptyHistory(windowSeconds: number): UseHistory {
  const windowMs = windowSeconds * 1000;
  return { windowMs, stepMs: windowMs / bucketsShown, epochMs: [], min: [], max: [] };
}

/** One reading more; what leaves the window goes. */
export function withReading(history: UseHistory, atMs: number, used: Known<number>): UseHistory {
  return withRange(history, atMs, isKnown(used) ? used : null, isKnown(used) ? used : null);
}

/** Returns the server's history, in the buckets of this page. */
export function historyFrom(answer: DeviceHistory, windowSeconds: number): UseHistory {
  let history = emptyHistory(windowSeconds);
  answer.epochMs.forEach((atMs, index) => {
    history = withRange(
      history,
      atMs,
      answer.usedMin[index] ?? null,
      answer.usedMax[index] ?? null,
      true,
    );
  });
  return withoutOld(history);
}

/** A history that was fetched, and what was read meanwhile. */
export function joined(fetched: UseHistory, live: UseHistory | undefined): UseHistory {
  if (live === undefined || live.windowMs !== fetched.windowMs) return fetched;
  const last = fetched.epochMs.at(-1) ?? -Infinity;
  let history = fetched;
  live.epochMs.forEach((atMs, index) => {
    if (atMs > last) {
      history = withRange(history, atMs, live.min[index] ?? null, live.max[index] ?? null, true);
    }
  });
  return withoutOld(history);
}

function withRange(
  history: UseHistory,
  atMs: number,
  low: number | null,
  high: number | null,
  keepOld = false,
): UseHistory {
  const { stepMs } = history;
  const bucket = Math.floor(atMs / stepMs) * stepMs;
  const last = history.epochMs.at(-1);
  // A clock that was set back must not bend the line.
  if (last !== undefined && bucket < last) return history;
  if (bucket === last) {
    const min = [...history.min];
    const max = [...history.max];
    min[min.length - 1] = lower(min.at(-1) ?? null, low);
    max[max.length - 1] = higher(max.at(-1) ?? null, high);
    return { ...history, min, max };
  }
  const gap = last !== undefined && bucket - last > gapBuckets * stepMs;
  const hole = gap ? [last + stepMs] : [];
  const grown = {
    ...history,
    epochMs: [...history.epochMs, ...hole, bucket],
    min: [...history.min, ...hole.map(() => null), low],
    max: [...history.max, ...hole.map(() => null), high],
  };
  return keepOld ? grown : withoutOld(grown);
}

function withoutOld(history: UseHistory): UseHistory {
  const oldest = (history.epochMs.at(-1) ?? 0) - history.windowMs;
  const first = history.epochMs.findIndex((at) => at >= oldest);
  if (first <= 0) return history;
  return {
    ...history,
    epochMs: history.epochMs.slice(first),
    min: history.min.slice(first),
    max: history.max.slice(first),
  };
}

function lower(one: number | null, other: number | null): number | null {
  return one === null || other === null ? (one ?? other) : Math.min(one, other);
}

function higher(one: number | null, other: number | null): number | null {
  return one === null || other === null ? (one ?? other) : Math.max(one, other);
}
