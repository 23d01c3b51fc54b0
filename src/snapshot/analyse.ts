import { parseAllocConf } from '../estimate/allocator/alloc-conf.js';
import { createAllocator } from '../estimate/allocator/caching-allocator.js';
import {
  type AllocatorSettings,
  blockSizeFor,
  isPowerOfTwo,
  largestRequest,
  largestSmall,
  roundupIntervals,
  segmentStep,
  sharedSegment,
} from '../estimate/allocator/settings.js';
import { Failure } from '../failure.js';
import { checkArguments, checkOptions, madeBy, texts, whole } from '../units/arguments.js';
import { groupedBy } from '../units/grouped-by.js';
import { type Holder, holdersAt, holdersNow } from './answer/holders.js';
import { findLeaks, type Leaks } from './answer/leaks.js';
import { explainOutOfMemory, type OutOfMemoryEvent } from './answer/out-of-memory.js';
import { findBeginning, type History, rebuildHistory } from './history/history.js';
import { action } from './records/known-strings.js';
import { type DeviceSnapshot, type Names, rowOf, type Segment, type Snapshot } from './snapshot.js';

/** All that a snapshot tells about one device. */
export interface SnapshotAnalysis {
  readonly snapshot: Snapshot;
  readonly device: DeviceSnapshot;
  readonly figures: Figures;
  readonly history: History;
  readonly fragmentation: Fragmentation;
  readonly leaks: Leaks;
  readonly outOfMemory: readonly OutOfMemoryEvent[];
  /** The present holders of memory. */
  readonly holders: readonly Holder[];
  /** The holders at the allocated peak; empty without a recording. */
  readonly peakHolders: readonly Holder[];
  /** Undefined where there was nothing to replay, or too much to do so unasked. */
  readonly whatIfs: WhatIfs | undefined;
}

export interface AnalyseOptions {
  /** The number of the device; else the one that holds the most. */
  readonly device?: number;
  /**
   * Settings to replay the recording with, as in `PYTORCH_CUDA_ALLOC_CONF`; empty: none. Left out,
   * the usual ones, where the recording is not too long.
   */
  readonly whatIf?: readonly string[];
}

/** Replays of more events take long enough that they are made only when asked for. */
const maxUnasked = 1_000_000;

/**
 * Finds out what holds the memory, what leaked, how fragmented it is, why it ran out, and what other
 * settings would have done.
 *
 * @example
 * const analysis = analyseSnapshot(await readSnapshot('snapshot.pickle'));
 * analysis.leaks.leaks.length;
 */
export function analyseSnapshot(
  snapshot: Snapshot,
  options: AnalyseOptions = {},
): SnapshotAnalysis {
  checkArguments('analyseSnapshot', { snapshot }, { snapshot: madeBy('readSnapshot', 'devices') });
  checkOptions('analyseSnapshot', options, { device: whole(0), whatIf: texts });
  const device = chooseDevice(snapshot, options.device);
  const history = rebuildHistory(snapshot, device);
  const outOfMemory = explainOutOfMemory(snapshot, device, history);
  const recorded = device.events.length > 0;
  const few = device.events.length <= maxUnasked;
  const confs = options.whatIf ?? (few ? usualConfs(snapshot) : []);
  return {
    snapshot,
    device,
    figures: figuresOf(device),
    history,
    fragmentation: fragmentationOf(device, snapshot.names),
    leaks: findLeaks(snapshot, device, history),
    outOfMemory,
    holders: holdersNow(device.segments),
    peakHolders: recorded ? holdersAt(history.lives, history.peakAllocated.index) : [],
    whatIfs:
      recorded && confs.length > 0 ? replayWith(snapshot, device, confs, outOfMemory) : undefined,
  };
}

function reserved({ segments }: DeviceSnapshot): number {
  return segments.reduce((sum, { totalBytes }) => sum + totalBytes, 0);
}

/** The device that was asked for, or the one with the most reserved memory. */
function chooseDevice({ devices }: Snapshot, wanted: number | undefined): DeviceSnapshot {
  const [first] =
    wanted === undefined
      ? devices.toSorted((a, b) => reserved(b) - reserved(a) || b.events.length - a.events.length)
      : devices.filter(({ device }) => device === wanted);
  if (first) return first;
  const there = devices.map(({ device }) => device).join(', ');
  throw new Failure({
    kind: 'input',
    code: devices.length === 0 ? 'empty-snapshot' : 'unknown-device',
    fact:
      devices.length === 0
        ? 'The snapshot holds no segment and no event of any device.'
        : `The snapshot has no device ${wanted}; it has ${there}.`,
    next:
      devices.length === 0
        ? 'Take it while the job runs, after torch.cuda.memory._record_memory_history().'
        : 'Name one of them, or leave --device out.',
  });
}

/** The figures of the allocator at the snapshot, in its own terms. */
interface Figures {
  /** Blocks that tensors use, as the allocator rounds them. */
  readonly allocatedBytes: number;
  /** Segments held from the driver. */
  readonly reservedBytes: number;
  /** Allocated, and freed but still in use by a stream. */
  readonly activeBytes: number;
  /** Free parts of segments that are partly in use: they cannot be given back. */
  readonly inactiveSplitBytes: number;
  /** Bytes that the program asked for, before rounding. */
  readonly requestedBytes: number;
}

function figuresOf(device: DeviceSnapshot): Figures {
  const { segments } = device;
  return {
    allocatedBytes: sumOf(segments, ({ allocatedBytes }) => allocatedBytes),
    reservedBytes: sumOf(segments, ({ totalBytes }) => totalBytes),
    activeBytes: sumOf(segments, ({ activeBytes }) => activeBytes),
    inactiveSplitBytes: sumOf(segments, inactiveSplit),
    requestedBytes: sumOf(segments, ({ requestedBytes }) => requestedBytes),
  };
}

/** PyTorch does not count the free parts of expandable segments: they can be given back. */
function inactiveSplit({ expandable, blocks }: Segment): number {
  if (expandable || blocks.length < 2) return 0;
  return sumOf(
    blocks.filter(({ state }) => state === 'inactive'),
    ({ bytes }) => bytes,
  );
}

function sumOf<One>(all: readonly One[], value: (one: One) => number): number {
  return all.reduce((total, one) => total + value(one), 0);
}

/** How broken up the memory of one pool on one stream is. */
export interface PoolFragmentation {
  /** `0,0` is the default pool; others belong to CUDA graphs and memory pools of the program. */
  readonly pool: string;
  readonly stream: string;
  readonly type: Segment['type'];
  readonly segments: number;
  readonly reservedBytes: number;
  /** Neither in use nor waiting for a stream. */
  readonly freeBytes: number;
  readonly largestFreeBytes: number;
  /** The comparison for the figure: the largest recent request. */
  readonly requestBytes: number;
  /** Free, too small for that request, and impossible to give back. */
  readonly stuckBytes: number;
  /** Free in whole segments or pages: `empty_cache()` gives it back. */
  readonly releasableBytes: number;
}

interface Fragmentation {
  /** Stuck bytes as a share of reserved ones, 0 to 1. */
  readonly share: number;
  readonly stuckBytes: number;
  readonly releasableBytes: number;
  readonly pools: readonly PoolFragmentation[];
}

/** How far back "of late" goes: some steps of a usual job. */
const recentEvents = 50_000;

/**
 * How much of what is reserved could not serve the largest recent request of its own pool and
 * stream, nor be given back.
 */
function fragmentationOf(device: DeviceSnapshot, names: Names): Fragmentation {
  const groups = groupedBy(
    device.segments,
    ({ pool, stream, type }) => `${pool}|${stream}|${type}`,
  );
  const requests = largestRequests(device);
  const pools = [...groups.values()]
    .map((segments) => poolOf(segments, names, requests))
    .toSorted((a, b) => b.reservedBytes - a.reservedBytes);
  const total = (value: (pool: PoolFragmentation) => number) =>
    pools.reduce((sum, pool) => sum + value(pool), 0);
  const stuckBytes = total((pool) => pool.stuckBytes);
  const reservedBytes = total((pool) => pool.reservedBytes);
  return {
    share: reservedBytes === 0 ? 0 : stuckBytes / reservedBytes,
    stuckBytes,
    releasableBytes: total((pool) => pool.releasableBytes),
    pools,
  };
}

/** The largest recent request of each stream, small and large ones apart. */
function largestRequests({ events }: DeviceSnapshot): ReadonlyMap<string, number> {
  const largest = new Map<string, number>();
  const from = Math.max(0, events.length - recentEvents);
  for (let index = from; index < events.length; index += 1) {
    const row = rowOf(events, index);
    const code = events.action[row];
    if (code !== action.alloc && code !== action.oom) continue;
    const bytes = blockSizeFor(Math.max(1, events.bytes[row] ?? 0), []);
    const key = `${events.stream[row]}|${bytes <= largestSmall ? 'small' : 'large'}`;
    if (bytes > (largest.get(key) ?? 0)) largest.set(key, bytes);
  }
  return largest;
}

function poolOf(
  segments: readonly Segment[],
  names: Names,
  requests: ReadonlyMap<string, number>,
): PoolFragmentation {
  const [first] = segments;
  const stream = first?.stream ?? 0;
  const type = first?.type ?? 'unknown';
  const blocks = segments.flatMap((segment) => segment.blocks);
  // Without a recording, the largest block in use stands for the request.
  const inUse = blocks.reduce(
    (most, { state, bytes }) => (state === 'inactive' ? most : Math.max(most, bytes)),
    0,
  );
  const requestBytes = requests.get(`${stream}|${type}`) ?? inUse;
  let freeBytes = 0;
  let largestFreeBytes = 0;
  let stuckBytes = 0;
  let releasableBytes = 0;
  for (const segment of segments) {
    for (const { state, bytes } of segment.blocks) {
      if (state !== 'inactive') continue;
      const releasable = releasableOf(segment, bytes);
      freeBytes += bytes;
      largestFreeBytes = Math.max(largestFreeBytes, bytes);
      releasableBytes += releasable;
      if (bytes < requestBytes) stuckBytes += bytes - releasable;
    }
  }
  return {
    pool: first?.pool ?? '0,0',
    stream: names.stream(stream),
    type,
    segments: segments.length,
    reservedBytes: segments.reduce((sum, segment) => sum + segment.totalBytes, 0),
    freeBytes,
    largestFreeBytes,
    requestBytes,
    stuckBytes,
    releasableBytes,
  };
}

/** A segment goes back whole; of an expandable one, whole pages of a free block do. */
function releasableOf({ expandable, blocks }: Segment, bytes: number): number {
  if (expandable) return Math.floor(bytes / segmentStep) * segmentStep;
  return blocks.length === 1 ? bytes : 0;
}

/** The recorded requests, served by a simulated allocator. */
interface WhatIf {
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
function usualConfs(snapshot: Snapshot): readonly string[] {
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
function replayWith(
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

/** Returns the settings in the snapshot, as far as PyTorch can have had them. */
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
