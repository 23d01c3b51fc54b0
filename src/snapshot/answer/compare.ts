import type { Frame, Names } from '../snapshot.js';
import type { Holder } from './holders.js';

/** What one stack holds in the one snapshot and in the other. */
export interface Difference {
  readonly frames: readonly Frame[];
  readonly bytes: number;
  readonly againstBytes: number;
  readonly count: number;
  readonly againstCount: number;
}

interface Side {
  readonly holders: readonly Holder[];
  readonly names: Names;
}

/**
 * What holds more or less than in another snapshot, by stack, the largest change first. Stacks are
 * the same when all their frames are; numbers of lines count.
 */
export function compareHolders(now: Side, against: Side): Difference[] {
  const differences = new Map<string, { -readonly [K in keyof Difference]: Difference[K] }>();
  const entryOf = ({ names }: Side, stack: number) => {
    const frames = names.stack(stack);
    const key = JSON.stringify(frames);
    const known = differences.get(key);
    if (known) return known;
    const made = { frames, bytes: 0, againstBytes: 0, count: 0, againstCount: 0 };
    differences.set(key, made);
    return made;
  };
  for (const { stack, bytes, count } of now.holders) {
    const entry = entryOf(now, stack);
    entry.bytes += bytes;
    entry.count += count;
  }
  for (const { stack, bytes, count } of against.holders) {
    const entry = entryOf(against, stack);
    entry.againstBytes += bytes;
    entry.againstCount += count;
  }
  const change = (one: Difference) => Math.abs(one.bytes - one.againstBytes);
  return [...differences.values()]
    .filter((one) => change(one) > 0 || one.count !== one.againstCount)
    .toSorted((a, b) => change(b) - change(a));
}
