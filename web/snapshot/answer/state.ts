import { noPlace, type Recording, unitBytes } from '../data/recording.js';
import { addressOf, describeLife, type LifeFacts } from './describe.js';

/** A segment at an instant. */
export interface SegmentState {
  readonly address: string;
  readonly bytes: number;
  readonly kind: string;
  readonly usedBytes: number;
  /** For each block: units from the segment's start, units, allocation, stack, 1: freed but in use. */
  readonly blocks: Int32Array;
}

/** The allocator's memory after a tick. */
export interface AllocatorState {
  readonly tick: number;
  readonly seconds: number | undefined;
  readonly usedBytes: number;
  /** Freed, but still in use by a stream. */
  readonly pendingBytes: number;
  /** Held by the allocator and free. */
  readonly cachedBytes: number;
  readonly reservedBytes: number;
  readonly largestFreeBytes: number;
  readonly count: number;
  /** The largest segments first. */
  readonly segments: readonly SegmentState[];
  readonly segmentCount: number;
  readonly largest: readonly LifeFacts[];
}

const maxSegments = 400;
const maxAllocations = 100;
export const blockFields = 5;

export function stateAt(recording: Recording, tick: number): AllocatorState {
  const { place, units, header, time } = recording;
  const { live, pending } = aliveAt(recording, tick);
  const blocks = [...live, ...pending]
    .filter((life) => place[life] !== noPlace)
    .toSorted((a, b) => (place[a] ?? 0) - (place[b] ?? 0));
  const held = segmentsAt(recording, tick);
  const freed = new Set(pending);
  let next = 0;
  let largestFree = 0;
  const segments = held.map(({ start, size, kind }) => {
    const fields: number[] = [];
    let [at, used] = [start, 0];
    while (next < blocks.length && (place[blocks[next] ?? 0] ?? 0) < start) next += 1;
    for (; next < blocks.length; next += 1) {
      const life = blocks[next] ?? 0;
      const [own, length] = [place[life] ?? 0, units[life] ?? 0];
      if (own >= start + size) break;
      largestFree = Math.max(largestFree, own - at);
      fields.push(own - start, length, life, recording.stack[life] ?? 0, freed.has(life) ? 1 : 0);
      used += length;
      at = own + length;
    }
    largestFree = Math.max(largestFree, start + size - at);
    return {
      address: addressOf(recording, start),
      bytes: size * unitBytes,
      kind: header.kinds[kind]?.words ?? '',
      usedBytes: used * unitBytes,
      blocks: Int32Array.from(fields),
    };
  });
  const sum = (lives: readonly number[]) =>
    lives.reduce((total, life) => total + (units[life] ?? 0), 0) * unitBytes;
  const [usedBytes, pendingBytes] = [sum(live), sum(pending)];
  const reservedBytes = held.reduce((total, { size }) => total + size, 0) * unitBytes;
  return {
    tick,
    seconds: time.known ? time.secondsAt(tick) : undefined,
    usedBytes,
    pendingBytes,
    cachedBytes: Math.max(0, reservedBytes - usedBytes - pendingBytes),
    reservedBytes,
    largestFreeBytes: largestFree * unitBytes,
    count: live.length,
    segments: segments.toSorted((a, b) => b.bytes - a.bytes).slice(0, maxSegments),
    segmentCount: segments.length,
    largest: live
      .toSorted((a, b) => (units[b] ?? 0) - (units[a] ?? 0))
      .slice(0, maxAllocations)
      .map((life) => describeLife(recording, life)),
  };
}

/** Allocations that are there after a tick, and those that only a stream still uses. */
function aliveAt({ count, from, to, pending }: Recording, tick: number) {
  const live: number[] = [];
  for (let life = 0; life < count && (from[life] ?? 0) <= tick; life += 1) {
    if ((to[life] ?? 0) > tick) live.push(life);
  }
  const waiting = [...pending]
    .filter(([life, until]) => (to[life] ?? 0) <= tick && tick < until)
    .map(([life]) => life);
  return { live, pending: waiting };
}

/** Segments by address; pages of an expandable segment that follow one another are one. */
function segmentsAt({ segments, header }: Recording, tick: number) {
  const { born, end, place, units, kind } = segments;
  const held = [...born.keys()]
    .filter((at) => (born[at] ?? 0) <= tick && (end[at] ?? 0) > tick)
    .map((at) => ({ start: place[at] ?? 0, size: units[at] ?? 0, kind: kind[at] ?? 0 }))
    .toSorted((a, b) => a.start - b.start);
  const joined: { start: number; size: number; kind: number }[] = [];
  for (const one of held) {
    const last = joined.at(-1);
    const follows = last && last.start + last.size === one.start && last.kind === one.kind;
    if (follows && header.kinds[one.kind]?.pages) last.size += one.size;
    else joined.push(one);
  }
  return joined;
}
