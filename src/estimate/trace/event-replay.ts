import { Failure } from '../../failure.js';
import {
  type CachingAllocator,
  createAllocator,
  type OutOfMemory,
} from '../allocator/caching-allocator.js';
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
  onMark?: OnMark,
  looked?: LookedAt,
): ReplayResult {
  const run = new ReplayRun(stream, settings);
  run.until(stream.length, onMark, looked);
  return run.result();
}

/** Gets the name of a mark, and the allocator as it is then. It may reset the allocator's peaks. */
export type OnMark = (name: string, allocator: CachingAllocator) => void;

/**
 * A replay that can stop at any event, and go on later or from a copy.
 *
 * @example
 * const run = new ReplayRun(stream);
 * run.until(1000);
 * const capped = run.copy({ allowedBytes: 24 * 1024 ** 3, deviceBytes: 24 * 1024 ** 3 });
 */
export class ReplayRun {
  readonly allocator: CachingAllocator;
  outOfMemory: ReplayResult['outOfMemory'];
  readonly #stream: EventStream;
  /** By slot: its block. */
  readonly #live: Int32Array;
  readonly #startsFresh: boolean;
  /** The next event. */
  #at = 0;
  #mark = 0;
  #peakAllocatedAt = -1;
  #peakReservedAt = -1;
  #peakAllocated = 0;
  #peakReserved = 0;

  /** `from`: another run of the same stream, and a copy of its allocator. */
  constructor(
    stream: EventStream,
    settings: Partial<AllocatorSettings> = {},
    from?: { readonly run: ReplayRun; readonly allocator: CachingAllocator },
  ) {
    const { addresses = defaultSettings.addresses } = settings;
    this.#stream = stream;
    if (from === undefined) {
      this.#startsFresh = addresses === 'driver' && stream.kind.includes(eventKind.firstKernel);
      this.allocator = createAllocator({
        ...settings,
        addresses: this.#startsFresh ? 'fresh-driver' : addresses,
      });
      this.#live = new Int32Array(stream.slots).fill(empty);
      return;
    }
    const { run } = from;
    this.allocator = from.allocator;
    this.outOfMemory = run.outOfMemory;
    this.#startsFresh = run.#startsFresh;
    this.#live = run.#live.slice();
    this.#at = run.#at;
    this.#mark = run.#mark;
    this.#peakAllocatedAt = run.#peakAllocatedAt;
    this.#peakReservedAt = run.#peakReservedAt;
    this.#peakAllocated = run.#peakAllocated;
    this.#peakReserved = run.#peakReserved;
  }

  /** The next event; where it ran out of memory, the one that did. */
  get at(): number {
    return this.#at;
  }

  /** One that stands where this one does, under other caps where these are given. */
  copy(caps?: Parameters<CachingAllocator['copy']>[0]): ReplayRun {
    return new ReplayRun(this.#stream, {}, { run: this, allocator: this.allocator.copy(caps) });
  }

  /** Goes on, up to an event that is left for later; ends where memory does. */
  until(end: number, onMark?: OnMark, looked?: LookedAt): void {
    const { allocator } = this;
    const { kind, slot, bytes, spare, streams, marks } = this.#stream;
    const live = this.#live;
    const startsFresh = this.#startsFresh;
    let peakAllocated = this.#peakAllocated;
    let peakReserved = this.#peakReserved;
    let which = 0;
    let lookAt = looked?.events[which] ?? none;
    let markAt = marks[this.#mark]?.at ?? none;
    let at = this.#at;
    for (; at < end; at += 1) {
      while (markAt === at) {
        onMark?.(marks[this.#mark]?.name ?? '', allocator);
        this.#mark += 1;
        markAt = marks[this.#mark]?.at ?? none;
      }
      if (at === lookAt) {
        looked?.look(which, allocator);
        which += 1;
        lookAt = looked?.events[which] ?? none;
      }
      const what = kind[at];
      const place = slot[at] ?? 0;
      if (what === eventKind.alloc) {
        const answer = allocator.malloc(bytes[at] ?? 0, streams[place]);
        if (typeof answer !== 'number') {
          if (spare[place] === 1) continue;
          this.outOfMemory = { ...answer, at };
          break;
        }
        live[place] = answer;
        if (allocator.peakAllocatedBytes > peakAllocated) {
          peakAllocated = allocator.peakAllocatedBytes;
          this.#peakAllocatedAt = at;
        }
        if (allocator.memory.peakReservedBytes > peakReserved) {
          peakReserved = allocator.memory.peakReservedBytes;
          this.#peakReservedAt = at;
        }
      } else if (what === eventKind.free) {
        const handle = live[place] ?? empty;
        if (handle === empty) {
          if (spare[place] === 1) continue;
          refuseFree(at);
        }
        allocator.free(handle);
        live[place] = empty;
      } else if (what === eventKind.emptyCache) {
        allocator.emptyCache();
      } else if (what === eventKind.takeAddresses) {
        allocator.takeAddresses(bytes[at] ?? 0);
      } else if (what === eventKind.firstKernel) {
        if (startsFresh) allocator.runFirstKernel();
      } else if (what === eventKind.use) {
        allocator.use(live[place] ?? empty);
      } else if (what === eventKind.wait) {
        allocator.finish(bytes[at] ?? 0);
      } else if (what === eventKind.resetPeaks) {
        allocator.resetPeaks();
        peakAllocated = allocator.peakAllocatedBytes;
        peakReserved = allocator.memory.peakReservedBytes;
        this.#peakAllocatedAt = at;
        this.#peakReservedAt = at;
      }
    }
    this.#at = at;
    this.#peakAllocated = peakAllocated;
    this.#peakReserved = peakReserved;
  }

  /** The peaks are those since the stream last reset them; `onMark` may have reset the allocator's own. */
  result(): ReplayResult {
    const { allocator, outOfMemory } = this;
    return {
      peakAllocatedBytes: Math.max(this.#peakAllocated, allocator.peakAllocatedBytes),
      peakReservedBytes: Math.max(this.#peakReserved, allocator.memory.peakReservedBytes),
      peakAllocatedAt: this.#peakAllocatedAt,
      peakReservedAt: this.#peakReservedAt,
      retries: allocator.retries,
      ...(outOfMemory === undefined ? {} : { outOfMemory }),
      allocator,
    };
  }
}

function refuseFree(at: number): never {
  throw new Failure({
    kind: 'input',
    code: 'bad-event',
    fact: `Event ${at} frees what is not allocated.`,
    next: 'Record each allocation before its free, and each free once.',
  });
}
