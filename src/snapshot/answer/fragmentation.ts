import { blockSizeFor, largestSmall, segmentStep } from '../../estimate/allocator/sizes.js';
import { groupedBy } from '../../units/grouped-by.js';
import { action } from '../records/known-strings.js';
import { type DeviceSnapshot, type Names, rowOf, type Segment } from '../snapshot.js';

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
  /** What the figure is held against: the largest request of late. */
  readonly requestBytes: number;
  /** Free, too small for that request, and impossible to give back. */
  readonly stuckBytes: number;
  /** Free in whole segments or pages: `empty_cache()` gives it back. */
  readonly releasableBytes: number;
}

export interface Fragmentation {
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
export function fragmentationOf(device: DeviceSnapshot, names: Names): Fragmentation {
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
