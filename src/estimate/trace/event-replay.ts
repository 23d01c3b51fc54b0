import { Failure } from '../../failure.js';
import type { OutOfMemory } from '../allocator/answers.js';
import { type CachingAllocator, createAllocator } from '../allocator/caching-allocator.js';
import { type AllocatorSettings, defaultSettings } from '../allocator/settings.js';
import { type EventStream, eventKind } from './event-stream.js';

export interface ReplayResult {
  readonly peakAllocatedBytes: number;
  readonly peakReservedBytes: number;
  /** The number of the event at which allocated bytes were first at their peak; -1: before any. */
  readonly peakAllocatedAt: number;
  readonly peakReservedAt: number;
  readonly retries: number;
  /** The request that failed and its event; the replay stops there. */
  readonly outOfMemory?: OutOfMemory & { readonly at: number };
  /** As the stream left it. */
  readonly allocator: CachingAllocator;
}

/** Events before which an allocator is looked at. */
export interface LookedAt {
  /** In rising order. */
  readonly events: Int32Array;
  /** `which`: the place among these events. */
  look(which: number, allocator: CachingAllocator): void;
}

/** No live block in this slot. */
const empty = -1;
/** No event. */
const none = -1;

/**
 * Feeds the requests of a job to a simulated allocator. A request that the job can do without is left
 * out, with its free, where there is no memory for it. `onMark` is told of each mark before the event
 * that follows it, `looked.look` of each event that it names.
 *
 * @example
 * const { peakReservedBytes, outOfMemory } = replay(stream, { allowedBytes: 24 * 1024 ** 3 });
 */
export function replay(
  stream: EventStream,
  settings: Partial<AllocatorSettings> = {},
  onMark?: (name: string, allocator: CachingAllocator) => void,
  looked?: LookedAt,
): ReplayResult {
  const { kind, slot, bytes, length, spare, streams, marks } = stream;
  const { addresses = defaultSettings.addresses } = settings;
  const startsFresh = addresses === 'driver' && kind.includes(eventKind.firstKernel);
  const allocator = createAllocator({
    ...settings,
    addresses: startsFresh ? 'fresh-driver' : addresses,
  });
  const live = new Int32Array(stream.slots).fill(empty);
  let peakAllocatedAt = -1;
  let peakReservedAt = -1;
  let peakAllocated = 0;
  let peakReserved = 0;
  let outOfMemory: ReplayResult['outOfMemory'];
  let mark = 0;
  let which = 0;
  let lookAt = looked?.events[which] ?? none;
  for (let at = 0; at < length; at += 1) {
    for (let next = marks[mark]; next?.at === at; next = marks[mark]) {
      onMark?.(next.name, allocator);
      mark += 1;
    }
    if (at === lookAt) {
      looked?.look(which, allocator);
      which += 1;
      lookAt = looked?.events[which] ?? none;
    }
    const what = kind[at];
    if (what === eventKind.alloc) {
      const answer = allocator.malloc(bytes[at] ?? 0, streams[slot[at] ?? 0]);
      if (typeof answer !== 'number') {
        if (spare[slot[at] ?? 0] === 1) continue;
        outOfMemory = { ...answer, at };
        break;
      }
      live[slot[at] ?? 0] = answer;
      if (allocator.peakAllocatedBytes > peakAllocated) {
        peakAllocated = allocator.peakAllocatedBytes;
        peakAllocatedAt = at;
      }
      if (allocator.memory.peakReservedBytes > peakReserved) {
        peakReserved = allocator.memory.peakReservedBytes;
        peakReservedAt = at;
      }
    } else if (what === eventKind.free) {
      const handle = live[slot[at] ?? 0] ?? empty;
      if (handle === empty) {
        if (spare[slot[at] ?? 0] === 1) continue;
        refuseFree(at);
      }
      allocator.free(handle);
      live[slot[at] ?? 0] = empty;
    } else if (what === eventKind.emptyCache) {
      allocator.emptyCache();
    } else if (what === eventKind.takeAddresses) {
      allocator.takeAddresses(bytes[at] ?? 0);
    } else if (what === eventKind.firstKernel) {
      if (startsFresh) allocator.runFirstKernel();
    } else if (what === eventKind.use) {
      allocator.use(live[slot[at] ?? 0] ?? empty);
    } else if (what === eventKind.wait) {
      allocator.finish(bytes[at] ?? 0);
    } else if (what === eventKind.resetPeaks) {
      allocator.resetPeaks();
      peakAllocated = allocator.peakAllocatedBytes;
      peakReserved = allocator.memory.peakReservedBytes;
      peakAllocatedAt = at;
      peakReservedAt = at;
    }
  }
  return {
    peakAllocatedBytes: allocator.peakAllocatedBytes,
    peakReservedBytes: allocator.memory.peakReservedBytes,
    peakAllocatedAt,
    peakReservedAt,
    retries: allocator.retries,
    ...(outOfMemory === undefined ? {} : { outOfMemory }),
    allocator,
  };
}

function refuseFree(at: number): never {
  throw new Failure({
    kind: 'input',
    code: 'bad-event',
    fact: `Event ${at} frees what is not allocated.`,
    next: 'Record each allocation before its free, and each free once.',
  });
}
