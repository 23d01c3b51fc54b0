import { parseAllocConf } from '../../estimate/allocator/alloc-conf.js';
import { createAllocator } from '../../estimate/allocator/caching-allocator.js';
import { type AllocatorSettings, isPowerOfTwo } from '../../estimate/allocator/settings.js';
import { largestRequest, roundupIntervals, sharedSegment } from '../../estimate/allocator/sizes.js';
import { findBeginning } from '../history/beginning.js';
import { action } from '../records/known-strings.js';
import { type DeviceSnapshot, rowOf, type Snapshot } from '../snapshot.js';
import type { OutOfMemoryEvent } from './out-of-memory.js';

/** The recorded requests, served by a simulated allocator. */
export interface WhatIf {
  /** As `PYTORCH_CUDA_ALLOC_CONF` has it; empty: as it was recorded. */
  readonly conf: string;
  readonly peakReservedBytes: number;
  /** The request that ran out of memory would have been served within the same limit. */
  readonly servesOutOfMemory?: boolean;
  /** Options of the configuration that the simulation leaves alone. */
  readonly ignored: readonly string[];
}

export interface WhatIfs {
  /** Under the recorded settings: how close the simulation comes to what was measured. */
  readonly asRecorded: WhatIf;
  readonly others: readonly WhatIf[];
}

/** Settings that help most jobs, in the words of PyTorch. */
export function usualConfs(snapshot: Snapshot): readonly string[] {
  const { expandableSegments } = snapshot.settings;
  return [
    expandableSegments ? 'expandable_segments:False' : 'expandable_segments:True',
    'max_split_size_mb:512',
    'roundup_power2_divisions:8',
  ];
}

/**
 * Serves the recorded requests with other settings: what would have been reserved, and whether the
 * request that failed last would have been served.
 *
 * @example
 * replayWith(snapshot, device, ['expandable_segments:True'], []).others[0]?.peakReservedBytes;
 */
export function replayWith(
  snapshot: Snapshot,
  device: DeviceSnapshot,
  confs: readonly string[],
  outOfMemory: readonly OutOfMemoryEvent[],
): WhatIfs {
  const recorded = recordedSettings(snapshot);
  const failed = outOfMemory.at(-1);
  const one = (conf: string): WhatIf => {
    const { settings, ignored } = parseAllocConf(conf);
    const all = { ...recorded, ...settings };
    const { peakReservedBytes } = serve(snapshot, device, all, device.events.length);
    return {
      conf,
      peakReservedBytes,
      ...(failed === undefined ? {} : { servesOutOfMemory: serves(snapshot, device, all, failed) }),
      ignored,
    };
  };
  return { asRecorded: one(''), others: confs.map(one) };
}

/** What the snapshot says of the settings, as far as PyTorch can have had them. */
function recordedSettings({ settings }: Snapshot): Partial<AllocatorSettings> {
  const { maxSplitBytes, roundupDivisions, expandableSegments } = settings;
  const divides = roundupDivisions.every((steps) => steps === 0 || isPowerOfTwo(steps));
  return {
    expandableSegments,
    ...(Number.isSafeInteger(maxSplitBytes) && maxSplitBytes >= sharedSegment
      ? { maxSplitBytes }
      : {}),
    ...(roundupDivisions.length === roundupIntervals && divides ? { roundupDivisions } : {}),
  };
}

/** The least that the process was allowed: what it held, and what the device could still give. */
function serves(
  snapshot: Snapshot,
  device: DeviceSnapshot,
  settings: Partial<AllocatorSettings>,
  failed: OutOfMemoryEvent,
): boolean {
  const { deviceFreeBytes, reservedBytes, cause, segmentBytes } = failed;
  const isFull = deviceFreeBytes !== 'unknown' && deviceFreeBytes < segmentBytes;
  const left = isFull && cause !== 'limit' ? deviceFreeBytes : 0;
  const allowed = { ...settings, allowedBytes: reservedBytes + left };
  return serve(snapshot, device, allowed, failed.index + 1).failedAt === undefined;
}

/** No block of this address is live in the simulation. */
const none = -1;

/** Serves the first `length` events; stops at a request that fails. */
function serve(
  snapshot: Snapshot,
  device: DeviceSnapshot,
  settings: Partial<AllocatorSettings>,
  length: number,
): { readonly peakReservedBytes: number; readonly failedAt?: number } {
  const { events } = device;
  const allocator = createAllocator(settings);
  const handles = new Int32Array(snapshot.names.addressCount).fill(none);
  const owners = poolOwners(snapshot, device);
  const request = (address: number, bytes: number, stream: number): boolean => {
    const asked = Math.min(Math.max(1, bytes), largestRequest);
    const owner = address < 0 ? 0 : (owners[address] ?? 0);
    const answer = allocator.malloc(asked, stream, owner);
    if (typeof answer !== 'number') return false;
    if (address >= 0) handles[address] = answer;
    else allocator.free(answer);
    return true;
  };
  for (const { address, bytes, block } of findBeginning(device, snapshot.names.addressCount)
    .blocks) {
    if (!request(address, block?.requestedBytes ?? bytes, 0)) {
      return { peakReservedBytes: allocator.memory.peakReservedBytes, failedAt: -1 };
    }
  }
  let releases = false;
  for (let index = 0; index < length; index += 1) {
    const row = rowOf(events, index);
    const code = events.action[row];
    const address = events.address[row] ?? -1;
    // Segments go back many at a time: `empty_cache()`, or an allocator that looks for room.
    if (releases && code !== action.segmentFree && code !== action.segmentUnmap) {
      allocator.emptyCache();
      releases = false;
    }
    const handle = address < 0 ? none : (handles[address] ?? none);
    // A request that failed in the real run was not served: it is only asked for where it is last.
    const asks = code === action.alloc || (code === action.oom && index + 1 === length);
    if (asks) {
      if (handle !== none) allocator.free(handle);
      if (!request(address, events.bytes[row] ?? 0, events.stream[row] ?? 0)) {
        return { peakReservedBytes: allocator.memory.peakReservedBytes, failedAt: index };
      }
    } else if (code === action.freeCompleted) {
      if (handle === none) continue;
      allocator.free(handle);
      handles[address] = none;
    } else if (code === action.segmentFree || code === action.segmentUnmap) {
      releases = true;
    }
  }
  return { peakReservedBytes: allocator.memory.peakReservedBytes };
}

/** Which pool an address belongs to, as far as what is left at the end tells; 0 is the default. */
function poolOwners({ names }: Snapshot, { segments }: DeviceSnapshot): Int32Array {
  const owners = new Int32Array(names.addressCount);
  const pools = [...new Set(segments.map(({ pool }) => pool))].filter((pool) => pool !== '0,0');
  if (pools.length === 0) return owners;
  const own = segments
    .filter(({ pool }) => pool !== '0,0')
    .map(({ address, totalBytes, pool }) => {
      const from = names.offset[address] ?? 0;
      return { from, to: from + totalBytes, owner: pools.indexOf(pool) + 1 };
    })
    .toSorted((a, b) => a.from - b.from);
  for (let address = 0; address < names.addressCount; address += 1) {
    const offset = names.offset[address] ?? 0;
    const segment = own.findLast(({ from }) => from <= offset);
    if (segment && offset < segment.to) owners[address] = segment.owner;
  }
  return owners;
}
