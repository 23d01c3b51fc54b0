import { slowedOnce } from './knee.js';
import type { Track, TrackGrowth } from './track.js';

/** Work before a growth is looked for in two halves of this length ... */
const halfSeconds = 5;
/** ... that end so long before it, or after: where a growth began is known roughly. */
const maxBeforeSeconds = 8;
const maxAfterSeconds = 3;
/** Work is calm where its floor moves by less than this share of what the growth adds. */
const calmShare = 0.3;
/** The growth must take this share of all there is, and so many times the swing of the work. */
const strongShare = 0.2;
const strongSwings = 2;
/** A growth has stalled when no new floor came for this many times the longest wait before. */
const stallFactor = 1.5;
/** A new floor is one that rose at this share of the usual rate at least. */
const leastPace = 0.2;
/** A load from a disk or a network is uneven: what its seconds add differs by this share of their mean. */
const unevenShare = 0.25;
/** The first seconds of a growth are often steeper: what work needs comes with them. */
const beginSeconds = 2;

/**
 * Whether work went up and came down to the same floor for a while before the growth, which then
 * took much more than the work ever did. A program that runs already is not loading or warming up.
 * Memory that did not move before shows no work: something may be loaded after a rest.
 */
export function followsWork(track: Track, growth: TrackGrowth, limitBytes: number): boolean {
  if (growth.riseBytes < strongShare * limitBytes) return false;
  for (let shift = -maxAfterSeconds; shift <= maxBeforeSeconds; shift++) {
    const to = growth.fromSeconds - shift;
    const early = track.secondsBetween(to - 2 * halfSeconds, to - halfSeconds);
    const late = track.secondsBetween(to - halfSeconds, to);
    if (early.length < halfSeconds - 1 || late.length < halfSeconds - 1) return false;
    const [before, after] = [early, late].map((half) => Math.min(...half.map(({ min }) => min)));
    const moved = Math.abs((after ?? 0) - (before ?? 0));
    // It came down from what it had reached: a growth that has begun does not.
    const swing = Math.max(...early.map(({ max }) => max)) - (after ?? 0);
    const calm = moved <= calmShare * growth.slope * halfSeconds;
    const works = swing > 2 * Math.max(moved, track.leastRise);
    if (calm && works && growth.riseBytes >= strongSwings * swing) return true;
  }
  return false;
}

/** When the floor last rose at a usual pace, the longest wait for that before, and the last second seen. */
function risesOf(
  track: Track,
  growth: TrackGrowth,
): { highSeconds: number; longestWait: number; lastSeconds: number } {
  let high = Number.NEGATIVE_INFINITY;
  let highSeconds = growth.fromSeconds;
  let longestWait = 0;
  let lastSeconds = growth.fromSeconds;
  for (const { min, firstSeconds } of track.secondsBetween(growth.fromSeconds, Infinity)) {
    lastSeconds = firstSeconds;
    if (min <= high + leastPace * growth.slope * (firstSeconds - highSeconds)) continue;
    longestWait = Math.max(longestWait, firstSeconds - highSeconds);
    high = min;
    highSeconds = firstSeconds;
  }
  return { highSeconds, longestWait, lastSeconds };
}

/** Whether the floor has just stopped rising: too lately for the growth to show it. */
export function hasStalled(track: Track, growth: TrackGrowth): boolean {
  const { highSeconds, longestWait, lastSeconds } = risesOf(track, growth);
  return lastSeconds - highSeconds > stallFactor * longestWait;
}

/** When the floor last rose at a usual pace. */
export function lastRiseSeconds(track: Track, growth: TrackGrowth): number {
  return risesOf(track, growth).highSeconds;
}

/** Whether growth that became slower goes on at a new straight rate. How it began does not count. */
export function keepsNewRate(track: Track, growth: TrackGrowth): boolean {
  const points = track
    .secondsBetween(growth.fromSeconds + beginSeconds, Infinity)
    .map(({ min, minSeconds }) => ({ seconds: minSeconds, bytes: min }));
  return slowedOnce(points);
}

/** Whether what each second adds differs much from second to second, as where files are read. */
export function isUneven(track: Track, growth: TrackGrowth): boolean {
  const floors = track
    .secondsBetween(growth.fromSeconds + beginSeconds, Infinity)
    .map(({ min }) => min);
  const added = floors.slice(1).map((floor, i) => floor - (floors[i] ?? floor));
  const mean = added.reduce((sum, one) => sum + one, 0) / added.length;
  const differences = added.reduce((sum, one) => sum + Math.abs(one - mean), 0) / added.length;
  return differences > unevenShare * mean;
}
