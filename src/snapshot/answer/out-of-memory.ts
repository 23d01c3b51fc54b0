import {
  blockSizeFor,
  largestSmall,
  segmentSizeFor,
  sharedSegment,
} from '../../estimate/allocator/settings.js';
import { heldAt, joined } from '../history/held-segments.js';
import type { History, Lives } from '../history/history.js';
import { type DeviceSnapshot, type Names, rowOf, type Snapshot } from '../snapshot.js';
import { type Holder, holdersAt } from './holders.js';

/**
 * Why a request was not served.
 * - `fragmentation`: as much was free inside the allocator, but in no piece that was large enough.
 * - `limit`: the device had enough left; a limit of the process forbade to take it.
 * - `full`: neither the allocator nor the device had as much.
 */
export type OutOfMemoryCause = 'fragmentation' | 'limit' | 'full';

/** A request that ran out of memory, and what it met. */
export interface OutOfMemoryEvent {
  readonly index: number;
  readonly timeUs: number;
  readonly stack: number;
  readonly askedBytes: number;
  /** Bytes that the driver would have had to give. */
  readonly segmentBytes: number;
  readonly deviceFreeBytes: number | 'unknown';
  readonly allocatedBytes: number;
  readonly reservedBytes: number;
  /** Free inside the allocator, in the pool and on the stream of the request. */
  readonly freeBytes: number;
  readonly largestFreeBytes: number;
  /** Free inside the allocator where this request may not go: other streams, small blocks. */
  readonly elsewhereBytes: number;
  readonly cause: OutOfMemoryCause;
  /** The largest holders at that time. */
  readonly holders: readonly Holder[];
}

/** A loop that catches the error and tries again has thousands; the last ones tell as much. */
const maxExplained = 20;
const maxHolders = 10;

export function explainOutOfMemory(
  snapshot: Snapshot,
  device: DeviceSnapshot,
  history: History,
): OutOfMemoryEvent[] {
  const { events } = device;
  return history.outOfMemory.slice(-maxExplained).map((level) => {
    const row = rowOf(events, level.index);
    const askedBytes = events.bytes[row] ?? 0;
    const stream = events.stream[row] ?? 0;
    const size = blockSizeFor(Math.max(1, askedBytes), snapshot.settings.roundupDivisions);
    const segmentBytes = segmentSizeFor(size, sharedSegment);
    const type = size <= largestSmall ? 'small' : 'large';
    const stretches = layoutAt(device, history.lives, snapshot.names, level.index);
    let freeBytes = 0;
    let largestFreeBytes = 0;
    let elsewhereBytes = 0;
    for (const stretch of stretches) {
      const free = stretch.gaps.reduce((sum, gap) => sum + gap, 0);
      if (stretch.type !== type || stretch.stream !== stream) {
        elsewhereBytes += free;
        continue;
      }
      freeBytes += free;
      for (const gap of stretch.gaps) largestFreeBytes = Math.max(largestFreeBytes, gap);
    }
    const deviceFreeBytes = events.deviceFree.get(row) ?? 'unknown';
    return {
      index: level.index,
      timeUs: events.timeUs[row] ?? 0,
      stack: events.stack[row] ?? 0,
      askedBytes,
      segmentBytes,
      deviceFreeBytes,
      allocatedBytes: level.allocatedBytes,
      reservedBytes: level.reservedBytes,
      freeBytes,
      largestFreeBytes,
      elsewhereBytes,
      cause: causeOf(size, segmentBytes, freeBytes + elsewhereBytes, deviceFreeBytes),
      holders: holdersAt(history.lives, level.index).slice(0, maxHolders),
    };
  });
}

function causeOf(
  size: number,
  segmentBytes: number,
  freeBytes: number,
  deviceFreeBytes: number | 'unknown',
): OutOfMemoryCause {
  if (freeBytes >= size) return 'fragmentation';
  return deviceFreeBytes !== 'unknown' && deviceFreeBytes >= segmentBytes ? 'limit' : 'full';
}

/** A stretch of memory of the allocator at an instant, with the free gaps in it. */
interface Stretch {
  readonly offset: number;
  readonly bytes: number;
  readonly stream: number;
  readonly type: 'small' | 'large';
  readonly usedBytes: number;
  readonly gaps: readonly number[];
}

/** The memory as it lay after the event `index`. */
export function layoutAt(
  device: DeviceSnapshot,
  lives: Lives,
  names: Names,
  index: number,
): Stretch[] {
  const { segments, pages } = heldAt(device, names, index);
  const held = [...segments.values(), ...joined(pages)].toSorted((a, b) => a.offset - b.offset);
  const blocks = blocksAt(lives, names, index);
  let next = 0;
  return held.map(({ offset, bytes, stream, type }) => {
    const end = offset + bytes;
    const gaps: number[] = [];
    let at = offset;
    let usedBytes = 0;
    while ((blocks[next]?.offset ?? Infinity) < offset) next += 1;
    for (let block = blocks[next]; block && block.offset < end; block = blocks[next]) {
      if (block.offset > at) gaps.push(block.offset - at);
      usedBytes += block.bytes;
      at = block.offset + block.bytes;
      next += 1;
    }
    if (end > at) gaps.push(end - at);
    return { offset, bytes, stream, type, usedBytes, gaps };
  });
}

function blocksAt(lives: Lives, names: Names, index: number) {
  const { born, freed, bytes, address, length } = lives;
  const blocks: { offset: number; bytes: number }[] = [];
  for (let life = 0; life < length; life += 1) {
    const end = freed[life] ?? -1;
    if ((born[life] ?? 0) > index || (end !== -1 && end <= index)) continue;
    blocks.push({ offset: names.offset[address[life] ?? 0] ?? 0, bytes: bytes[life] ?? 0 });
  }
  return blocks.toSorted((a, b) => a.offset - b.offset);
}
