import { setImmediate as turn } from 'node:timers/promises';
import type { AllocatorSettings } from './allocator/settings.js';
import { roundUp, segmentStep } from './allocator/sizes.js';
import { ReplayRun, replay } from './trace/event-replay.js';
import { type EventStream, eventKind } from './trace/event-stream.js';

/**
 * How little memory a stream of requests can live with. Under a cap the allocator gives cached
 * segments back and tries again, so less than the usual peak often works.
 *
 * A larger cap is not always better: cached segments are given back at another moment, what is left
 * lies elsewhere, and a request may then fail that a smaller cap serves. So there are two answers.
 */
export interface LeastCapacity {
  /** With this, and with anything more, the replay succeeds. Plan with this one. */
  readonly safeBytes: number;
  /** The smallest cap with which it succeeds at all; between the two some caps work, some do not. */
  readonly luckyBytes: number;
  /** Reserved at the peak when nothing caps it. */
  readonly uncappedBytes: number;
  /**
   * 1 when every cap was decided. With garbage collection each cap is a case of its own, so only
   * caps this far apart were tried; so it is above `safeBytes` where a long search was shortened.
   */
  readonly stepBytes: number;
  /** False when the search ended early: `luckyBytes` may then be too high, never too low. */
  readonly complete: boolean;
  readonly replays: number;
}

/** Finds what a stream needs at least, where it is known what it is granted without a limit. */
export type FindCapacity = (stream: EventStream, uncappedBytes: number) => Promise<LeastCapacity>;

interface SearchOptions {
  readonly safeOnly?: boolean;
  /** With `safeOnly`: every cap is decided while no more events than this are replayed. */
  readonly exactEvents?: number;
  /** What is granted at most when nothing caps it, where a replay has shown it already. */
  readonly uncappedBytes?: number;
}

/** The recorded jobs need 2 to 460. */
const maxReplays = 2000;
/**
 * About half a second of replays. A long job whose batches differ holds much that it does not use, and needs hundreds of
 * replays for the last byte: they took longer than the rest of its estimate.
 */
const maxExactEvents = 2_500_000;
/** Then so many caps are tried of those that are left; only between the last two, every cap is decided. */
const wideSteps = 16;
/**
 * After so many times those events, about two seconds of replays, only caps are tried that lie closer and closer, down
 * to a segment. A text that grows by a token each turn asks for a new size each time, so that nearly every cap is a case
 * of its own.
 */
const longSearch = 4;

/**
 * Finds how small a cap may be. With `safeOnly` the search ends at the first cap that fails, which
 * is sooner, and tells nothing about `luckyBytes`; a long search takes wide steps first. A large job takes a second of replays; between two of
 * them others get their turn, for a server has more to do.
 *
 * @example
 * const { safeBytes } = await leastCapacity(stream, { expandableSegments: true });
 * replay(stream, { expandableSegments: true, allowedBytes: safeBytes }).outOfMemory; // undefined
 */
export async function leastCapacity(
  stream: EventStream,
  settings: Partial<Omit<AllocatorSettings, 'allowedBytes' | 'deviceBytes'>> = {},
  {
    safeOnly = false,
    exactEvents = maxExactEvents,
    uncappedBytes = uncappedOf(stream, settings),
  }: SearchOptions = {},
): Promise<LeastCapacity> {
  const threshold = settings.garbageCollectionThreshold ?? 0;
  const collects = threshold > 0;
  // Live blocks lie in segments, so no cap below their sum can work.
  const floor = largestLiveSum(stream);
  // With so much, nothing is ever refused, and no garbage collected.
  let safeBytes = collects ? Math.ceil(uncappedBytes / threshold) : uncappedBytes;
  const range = Math.max(safeBytes - floor, 1);
  const leastStep = collects ? roundUp(range / maxReplays, segmentStep) : 1;
  let stepBytes = leastStep;
  let step = leastStep;
  let luckyBytes = safeBytes;
  let failed = false;
  let replays = 1;
  let cap = safeBytes - step;
  const capped = new CappedReplays(stream, settings, floor);
  let narrows = false;
  const isLong = (): boolean => safeOnly && replays * stream.length > longSearch * exactEvents;
  const nearest = (): number => (isLong() ? Math.max(leastStep, segmentStep) : leastStep);
  for (; cap >= floor && replays < maxReplays; replays += 1) {
    await turn();
    const { fits, maxGrantedBytes } = capped.under(cap);
    // All caps from the most that was granted up to this one behave alike: one replay decides them.
    const lowest = collects ? cap : maxGrantedBytes;
    if (fits) luckyBytes = lowest;
    else failed = true;
    if (failed && safeOnly) {
      if (step <= nearest()) break;
      // Somewhere between this cap and the last one that worked: there every cap is decided, or closer ones are tried.
      failed = false;
      step = Math.max(nearest(), narrows ? Math.ceil(step / wideSteps) : leastStep);
      cap = safeBytes - step;
      continue;
    }
    if (!failed) safeBytes = lowest;
    if (safeOnly && !collects && stepBytes === leastStep && replays * stream.length > exactEvents) {
      step = stepBytes = Math.max(1, Math.ceil((safeBytes - floor) / wideSteps));
    }
    if (isLong() && !narrows) {
      narrows = true;
      step = Math.max(nearest(), Math.ceil((safeBytes - floor) / wideSteps));
    }
    if (lowest - step < floor) step = nearest();
    cap = lowest - step;
  }
  return { safeBytes, luckyBytes, uncappedBytes, stepBytes, complete: cap < floor, replays };
}

/** What is safe, and nothing more: see `safeOnly`. */
export const safeCapacity: FindCapacity = (stream, uncappedBytes) =>
  leastCapacity(stream, {}, { safeOnly: true, uncappedBytes });

function uncappedOf(stream: EventStream, settings: Partial<AllocatorSettings>): number {
  const { allocator } = replay(stream, { ...settings, garbageCollectionThreshold: 0 });
  return allocator.memory.maxGrantedBytes;
}

/** The most that was asked for and not yet freed at one time, without what the job can do without. */
function largestLiveSum({ kind, slot, bytes, length, slots, spare }: EventStream): number {
  const held = new Float64Array(slots);
  let sum = 0;
  let most = 0;
  for (let at = 0; at < length; at += 1) {
    const place = slot[at] ?? 0;
    if (spare[place] === 1) continue;
    if (kind[at] === eventKind.alloc) {
      held[place] = bytes[at] ?? 0;
      sum += bytes[at] ?? 0;
      if (sum > most) most = sum;
    } else if (kind[at] === eventKind.free) {
      sum -= held[place] ?? 0;
    }
  }
  return most;
}

/** A run is copied so many times on its way. */
const copies = 32;
/** And not after fewer events than these: a copy takes as long as a thousand of them. */
const fewEvents = 8192;

interface CappedReplay {
  /** Whether all was served that the job cannot do without. */
  readonly fits: boolean;
  readonly maxGrantedBytes: number;
}

/**
 * Replays of one stream under falling caps. Until one grants more than the next cap, both do the same: the next one
 * goes on from a copy that was made before that. A cap that fails is followed by one above it, so that copies are
 * kept of runs that fit only.
 *
 * @example
 * const replays = new CappedReplays(stream, {}, floor);
 * replays.under(24 * 1024 ** 3).fits;
 */
export class CappedReplays {
  readonly #stream: EventStream;
  readonly #settings: Partial<AllocatorSettings>;
  readonly #floor: number;
  readonly #everyEvents: number;
  /** Of the last run that fit, in the order of their events. */
  #kept: readonly ReplayRun[] = [];

  /** No cap will be below `floor`. A run is copied after each `everyEvents`. */
  constructor(
    stream: EventStream,
    settings: Partial<AllocatorSettings>,
    floor: number,
    everyEvents = Math.max(fewEvents, Math.ceil(stream.length / copies)),
  ) {
    this.#settings = settings;
    this.#floor = floor;
    const { garbageCollectionThreshold = 0, expandableSegments = false } = settings;
    // Garbage is collected by a share of the cap: under another one all may be different from the beginning.
    const resumes = garbageCollectionThreshold === 0 && !expandableSegments;
    this.#stream = resumes ? withReusedSlots(stream) : stream;
    this.#everyEvents = resumes ? everyEvents : stream.length;
  }

  under(cap: number): CappedReplay {
    const { length } = this.#stream;
    const caps = { allowedBytes: cap, deviceBytes: cap };
    const before = this.#kept.filter((run) => grantedBy(run) <= cap);
    const run =
      before.at(-1)?.copy(caps) ?? new ReplayRun(this.#stream, { ...this.#settings, ...caps });
    const kept = [...before];
    while (run.at < length && run.outOfMemory === undefined) {
      run.until(Math.min(length, run.at + this.#everyEvents));
      if (run.at < length && run.outOfMemory === undefined) this.#keep(kept, run);
    }
    const fits = run.outOfMemory === undefined;
    if (fits) this.#kept = kept;
    return { fits, maxGrantedBytes: grantedBy(run) };
  }

  /** A later copy takes the place of one that is of no more use. */
  #keep(kept: ReplayRun[], run: ReplayRun): void {
    const last = kept.at(-1);
    const grantedMore =
      last === undefined || grantedBy(run) > Math.max(this.#floor, grantedBy(last));
    if (!grantedMore) kept.pop();
    kept.push(run.copy());
  }
}

function grantedBy({ allocator }: ReplayRun): number {
  return allocator.memory.maxGrantedBytes;
}

/** For an event whose allocation was never made or is freed already. A replay refuses it, as before. */
const noSlot = -1;

/**
 * The same events, where the slot of what was freed is used again: there are as many slots as allocations live at
 * once, not as there are at all. A slot is used again only by requests of the same stream, and only by those that the job
 * can do without as well, or by those that it cannot.
 *
 * @example
 * withReusedSlots(stream).slots; // 4,000 instead of 500,000
 */
export function withReusedSlots(stream: EventStream): EventStream {
  const { kind, slot, length, spare, streams } = stream;
  const reused = new Int32Array(length);
  /** By slot of the stream: the one that it has now. */
  const now = new Int32Array(stream.slots).fill(noSlot);
  const unused = new Map<number, number[]>();
  const kinds: number[] = [];
  for (let at = 0; at < length; at += 1) {
    const place = slot[at] ?? 0;
    if (kind[at] === eventKind.alloc) {
      const sort = 2 * (streams[place] ?? 0) + (spare[place] ?? 0);
      const found = unused.get(sort)?.pop() ?? kinds.length;
      if (found === kinds.length) kinds.push(sort);
      now[place] = found;
    }
    reused[at] = now[place] ?? noSlot;
    if (kind[at] !== eventKind.free) continue;
    now[place] = noSlot;
    const freed = reused[at] ?? noSlot;
    if (freed === noSlot) continue;
    const sort = kinds[freed] ?? 0;
    const others = unused.get(sort);
    if (others === undefined) unused.set(sort, [freed]);
    else others.push(freed);
  }
  return {
    ...stream,
    slot: reused,
    slots: kinds.length,
    spare: Uint8Array.from(kinds, (sort) => sort & 1),
    streams: Uint8Array.from(kinds, (sort) => sort >>> 1),
  };
}
