import type { Lives } from '../history/lives.js';
import type { Frame, Names, Segment } from '../snapshot.js';
import { moduleOf, ownFrame, shortFile } from './frame-place.js';

/** Bytes that one call stack holds. */
export interface Holder {
  /** Number of the stack in the snapshot's names. */
  readonly stack: number;
  readonly bytes: number;
  readonly count: number;
}

/** Bytes that a file or a module holds. */
export interface PlaceHolder {
  readonly name: string;
  readonly bytes: number;
  readonly count: number;
}

function largestFirst<One extends { readonly bytes: number }>(all: Iterable<One>): One[] {
  return [...all].toSorted((a, b) => b.bytes - a.bytes);
}

/** Which stacks hold the blocks that are in use now, the largest first. */
export function holdersNow(segments: readonly Segment[]): Holder[] {
  const byStack = new Map<number, { stack: number; bytes: number; count: number }>();
  for (const { blocks } of segments) {
    for (const { state, bytes, stack } of blocks) {
      if (state !== 'inactive') tally(byStack, stack, bytes);
    }
  }
  return largestFirst(byStack.values());
}

/** Which stacks held memory after the event `index`, the largest first. */
export function holdersAt(lives: Lives, index: number): Holder[] {
  const { born, freed, bytes, stack, length } = lives;
  const byStack = new Map<number, { stack: number; bytes: number; count: number }>();
  for (let life = 0; life < length; life += 1) {
    const end = freed[life] ?? -1;
    if ((born[life] ?? 0) > index || (end !== -1 && end <= index)) continue;
    tally(byStack, stack[life] ?? 0, bytes[life] ?? 0);
  }
  return largestFirst(byStack.values());
}

/** The same by the file of the user's own innermost frame, or of the innermost frame at all. */
export function byFile(holders: readonly Holder[], names: Names): PlaceHolder[] {
  return grouped(holders, (holder) => {
    const frames = names.stack(holder.stack);
    const frame = ownFrame(frames) ?? frames[0];
    return frame && shortFile(frame.file);
  });
}

/** The same by the module and function that allocated. */
export function byModule(holders: readonly Holder[], names: Names): PlaceHolder[] {
  return grouped(holders, (holder) => moduleOf(names.stack(holder.stack)));
}

/** Blocks without frames: from before the recording, or from a thread without Python. */
const noFrames = 'no frames recorded';

function grouped(
  holders: readonly Holder[],
  nameOf: (holder: Holder) => string | undefined,
): PlaceHolder[] {
  const places = new Map<string, { name: string; bytes: number; count: number }>();
  for (const holder of holders) {
    const name = nameOf(holder) ?? noFrames;
    const place = places.get(name) ?? { name, bytes: 0, count: 0 };
    place.bytes += holder.bytes;
    place.count += holder.count;
    places.set(name, place);
  }
  return largestFirst(places.values());
}

function tally(
  byStack: Map<number, { stack: number; bytes: number; count: number }>,
  stack: number,
  bytes: number,
): void {
  const holder = byStack.get(stack);
  if (holder) {
    holder.bytes += bytes;
    holder.count += 1;
  } else {
    byStack.set(stack, { stack, bytes, count: 1 });
  }
}

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
