import { action } from '../records/known-strings.js';
import { type DeviceSnapshot, rowOf, type Snapshot } from '../snapshot.js';
import { findBeginning } from './beginning.js';
import { blockSizes } from './block-sizes.js';
import { before, Lives, never } from './lives.js';
import { SegmentMap } from './segment-map.js';

/** How much was held at an instant. */
export interface Level {
  /** The event after which it was so; -1: before the first. */
  readonly index: number;
  readonly allocatedBytes: number;
  readonly activeBytes: number;
  readonly reservedBytes: number;
}

/** What happened on one device, put together from its events and what is left at the end. */
export interface History {
  readonly lives: Lives;
  readonly start: Level;
  readonly end: Level;
  readonly peakAllocated: Level;
  readonly peakReserved: Level;
  /** Levels at the out-of-memory events, in order. */
  readonly outOfMemory: readonly Level[];
  /**
   * Bytes by which the end differs from the segments: 0 unless the recording was stopped before the
   * snapshot, or lost events.
   */
  readonly driftBytes: number;
}

/** Called after every event: what is held then. */
export type LevelVisitor = (
  index: number,
  row: number,
  allocatedBytes: number,
  activeBytes: number,
  reservedBytes: number,
) => void;

/**
 * Plays the recording from what was there at its beginning to its end: when each allocation was
 * born and freed, with the bytes the allocator counted, and how much was held at each instant.
 *
 * @example
 * const { peakAllocated } = rebuildHistory(snapshot, device);
 * peakAllocated.allocatedBytes;
 */
export function rebuildHistory(
  snapshot: Snapshot,
  device: DeviceSnapshot,
  visit: LevelVisitor = () => {},
): History {
  const { names } = snapshot;
  const { offset } = names;
  const { events } = device;
  const beginning = findBeginning(device, names.addressCount);
  const segments = new SegmentMap();
  for (const { address, bytes } of beginning.segments) segments.add(offset[address] ?? 0, bytes);
  const sizes = blockSizes(snapshot.settings, segments);
  const lives = new Lives(Math.ceil(events.length * 0.45));
  /** The life that an address has now, and one that was freed but is still in use by a stream. */
  const current = new Int32Array(names.addressCount).fill(never);
  const pending = new Int32Array(names.addressCount).fill(never);
  let allocated = 0;
  let active = 0;
  for (const { address, bytes, block } of sortedByOffset(beginning.blocks, offset)) {
    const size = block?.bytes ?? sizes.begin(offset[address] ?? 0, bytes);
    if (block) sizes.begin(offset[address] ?? 0, size);
    const requested = block?.requestedBytes ?? bytes;
    const life = lives.add(size, requested, before, block?.stack ?? 0, address, 0);
    active += size;
    if (block?.state === 'pending-free') {
      lives.freed[life] = 0;
      pending[address] = life;
    } else {
      allocated += size;
      current[address] = life;
    }
  }
  let reserved = reservedAtStart(device);
  const levelAt = (index: number): Level => ({
    index,
    allocatedBytes: allocated,
    activeBytes: active,
    reservedBytes: reserved,
  });
  const start = levelAt(-1);
  let peakAllocated = start;
  let peakReserved = start;
  const outOfMemory: Level[] = [];
  for (let index = 0; index < events.length; index += 1) {
    const row = rowOf(events, index);
    const address = events.address[row] ?? -1;
    const bytes = events.bytes[row] ?? 0;
    switch (events.action[row] ?? action.other) {
      case action.alloc: {
        if (address < 0) break;
        const lost = current[address] ?? never;
        // Its free was not recorded.
        if (lost !== never) {
          lives.freed[lost] = index;
          lives.returned[lost] = index;
          allocated -= lives.bytes[lost] ?? 0;
          active -= lives.bytes[lost] ?? 0;
        }
        const size = sizes.begin(offset[address] ?? 0, bytes);
        const stack = events.stack[row] ?? 0;
        current[address] = lives.add(size, bytes, index, stack, address, events.stream[row] ?? 0);
        allocated += size;
        active += size;
        if (allocated > peakAllocated.allocatedBytes) peakAllocated = levelAt(index);
        break;
      }
      case action.freeRequested: {
        const life = address < 0 ? never : (current[address] ?? never);
        if (life === never) break;
        lives.freed[life] = index;
        allocated -= lives.bytes[life] ?? 0;
        current[address] = never;
        pending[address] = life;
        break;
      }
      case action.freeCompleted: {
        if (address < 0) break;
        let life = pending[address] ?? never;
        if (life === never) {
          // The request came before the recording began.
          life = current[address] ?? never;
          if (life === never) break;
          lives.freed[life] = index;
          allocated -= lives.bytes[life] ?? 0;
          current[address] = never;
        }
        active -= lives.bytes[life] ?? 0;
        lives.returned[life] = index;
        pending[address] = never;
        sizes.end(offset[address] ?? 0, lives.bytes[life] ?? 0);
        break;
      }
      case action.segmentAlloc:
        if (address >= 0) segments.add(offset[address] ?? 0, bytes);
        reserved += bytes;
        break;
      case action.segmentMap:
        reserved += bytes;
        break;
      case action.segmentFree:
        if (address >= 0) segments.remove(offset[address] ?? 0);
        reserved -= bytes;
        break;
      case action.segmentUnmap:
        reserved -= bytes;
        break;
      case action.oom:
        outOfMemory.push(levelAt(index));
        break;
      default:
    }
    if (reserved > peakReserved.reservedBytes) peakReserved = levelAt(index);
    visit(index, row, allocated, active, reserved);
  }
  const end = levelAt(events.length - 1);
  const now = device.segments.reduce((sum, segment) => sum + segment.allocatedBytes, 0);
  const driftBytes = now - end.allocatedBytes;
  return { lives, start, end, peakAllocated, peakReserved, outOfMemory, driftBytes };
}

/** Blocks from the highest address down, so that each finds where the next one begins. */
function sortedByOffset<One extends { readonly address: number }>(
  blocks: readonly One[],
  offset: Float64Array,
): One[] {
  return blocks.toSorted((a, b) => (offset[b.address] ?? 0) - (offset[a.address] ?? 0));
}

/** What is held now, less what was taken since, and with what was given back. */
function reservedAtStart({ segments, events }: DeviceSnapshot): number {
  let bytes = segments.reduce((sum, segment) => sum + segment.totalBytes, 0);
  for (let index = 0; index < events.length; index += 1) {
    const row = rowOf(events, index);
    const code = events.action[row];
    if (code === action.segmentAlloc || code === action.segmentMap) bytes -= events.bytes[row] ?? 0;
    else if (code === action.segmentFree || code === action.segmentUnmap) {
      bytes += events.bytes[row] ?? 0;
    }
  }
  return Math.max(0, bytes);
}
