import {
  blockSizeFor,
  largestSmall,
  segmentSizeFor,
  sharedSegment,
} from '../../estimate/allocator/sizes.js';
import type { History } from '../history/history.js';
import { type DeviceSnapshot, rowOf, type Snapshot } from '../snapshot.js';
import { type Holder, holdersAt } from './holders.js';
import { layoutAt } from './layout.js';

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
  /** What the driver would have had to give. */
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
  /** Who held the most then. */
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
