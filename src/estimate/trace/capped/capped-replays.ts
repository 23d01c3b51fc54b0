import type { AllocatorSettings } from '../../allocator/settings.js';
import { ReplayRun } from '../event-replay.js';
import type { EventStream } from '../event-stream.js';
import { withReusedSlots } from './reused-slots.js';

/** A run is copied so many times on its way. */
const copies = 32;
/** And not after fewer events than these: a copy takes as long as a thousand of them. */
const fewEvents = 8192;

export interface CappedReplay {
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
