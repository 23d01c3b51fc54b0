import type { CachingAllocator } from '../allocator/caching-allocator.js';
import {
  blockStep,
  defaultSettings,
  largestSmall,
  roundUp,
  segmentSizeFor,
} from '../allocator/settings.js';
import { replayOn, roomOn } from '../cards/card-limit.js';
import type { Gpu } from '../cards/gpu-table.js';
import { type EventStream, eventKind } from './event-stream.js';

/** Scratch memory of a kernel that cuDNN may not choose: given back at once, so two events. */
export interface UnsureScratch {
  /** The event that asks for it; the next one gives it back. */
  readonly at: number;
  /** Bytes that the other kernel asks for; 0 for none. */
  readonly otherBytes: number;
  /** How likely it is that the other kernel runs. */
  readonly chance: number;
  /** Layers of the same shapes have the same number: their kernels are chosen alike. */
  readonly choice: number;
}

/** So many that two of them lie beyond each end of 90 %, which the peaks of runs on an H200 bear out. */
const draws = 40;
const beyond = 2;

/**
 * The same job as it may run, its unsure kernels drawn by their chances. The same trace always gets the
 * same draws. Where no kernel differs from the likelier one, it is the stream itself. Each is made when it is
 * asked for: 40 copies of a long stream would take more memory than the rest of an estimate.
 */
export function* drawnStreams(
  stream: EventStream,
  unsure: readonly UnsureScratch[],
): Generator<EventStream> {
  const choices = [...new Map(unsure.map(({ choice, chance }) => [choice, chance]))];
  if (choices.length === 0) return;
  const random = randomNumbers(choices.length);
  for (let drawn = 0; drawn < draws; drawn += 1) {
    const others = new Set(choices.filter(([, chance]) => random() < chance).map(([one]) => one));
    yield others.size === 0 ? stream : withOthers(stream, unsure, others);
  }
}

/**
 * Returns the reserved bytes of each draw on a card. A draw that changes only requests that an
 * earlier draw changed is not replayed: scratch memory in a free block leaves all else as it was,
 * and most of it lies there.
 */
export function drawnPeaks(
  gpu: Gpu,
  stream: EventStream,
  unsure: readonly UnsureScratch[],
): number[] {
  const events = Int32Array.from(unsure, ({ at }) => at);
  const replayed: { readonly segments: SegmentsTaken; readonly peak: number }[] = [];
  return Array.from(drawnStreams(stream, unsure), (one) => {
    const before = replayed.find(({ segments }) => segments.areThoseOf(one));
    if (before !== undefined) return before.peak;
    const segments = new SegmentsTaken(events, one);
    const { peakReservedBytes, uncappedBytes } = replayOn(gpu, one, {}, segments);
    // Where memory ends, a request is decided by more than what is free.
    if (uncappedBytes <= roomOn(gpu)) replayed.push({ segments, peak: peakReservedBytes });
    return peakReservedBytes;
  });
}

/** The segments that a replay takes for scratch memory: none where a free block is large enough. */
class SegmentsTaken {
  readonly #stream: EventStream;
  /** By request: the largest free block of those for small requests, and of the others. */
  readonly #small: Float64Array;
  readonly #large: Float64Array;

  constructor(
    readonly events: Int32Array,
    stream: EventStream,
  ) {
    this.#stream = stream;
    this.#small = new Float64Array(events.length);
    this.#large = new Float64Array(events.length);
  }

  look(which: number, allocator: CachingAllocator): void {
    this.#small[which] = allocator.largestFreeFor(1);
    this.#large[which] = allocator.largestFreeFor(largestSmall + 1);
  }

  /** Whether another stream, which differs in its scratch memory alone, would take the same. */
  areThoseOf(stream: EventStream): boolean {
    return this.events.every((at, which) => {
      const own = this.#stream.bytes[at] ?? 0;
      const other = stream.bytes[at] ?? 0;
      return own === other || this.#segmentFor(own, which) === this.#segmentFor(other, which);
    });
  }

  #segmentFor(bytes: number, which: number): number {
    const size = roundUp(bytes, blockStep);
    const free = (size <= largestSmall ? this.#small : this.#large)[which] ?? 0;
    return size <= free ? 0 : segmentSizeFor(size, defaultSettings.largeSegmentBytes);
  }
}

/**
 * The lowest and the highest of the peaks of draws, without the few at either end.
 *
 * @example
 * likelyPeaks(drawnPeaks(gpu, stream, unsure));
 */
export function likelyPeaks(peaks: readonly number[]): readonly number[] {
  return peaks.toSorted((a, b) => a - b).slice(beyond, -beyond);
}

function withOthers(
  stream: EventStream,
  unsure: readonly UnsureScratch[],
  others: ReadonlySet<number>,
): EventStream {
  const kind = stream.kind.slice();
  const bytes = stream.bytes.slice();
  for (const { at, otherBytes, choice } of unsure) {
    if (!others.has(choice)) continue;
    kind[at] = otherBytes > 0 ? eventKind.alloc : eventKind.none;
    kind[at + 1] = otherBytes > 0 ? eventKind.free : eventKind.none;
    bytes[at] = otherBytes;
  }
  return { ...stream, kind, bytes };
}

/** Numbers from 0 up to 1 that look random and are always the same (mulberry32). */
export function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
