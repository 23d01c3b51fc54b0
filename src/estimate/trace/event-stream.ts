import { Failure } from '../../failure.js';
import { largestRequest } from '../allocator/settings.js';

/** The kinds of events of an allocator, one number each so that a stream is three flat columns. */
export const eventKind = {
  alloc: 0,
  free: 1,
  emptyCache: 2,
  resetPeaks: 3,
  takeAddresses: 4,
  /** Another stream works on an allocation from now on. */
  use: 5,
  /** The host waited: the first `bytes` frees of what other streams used are done. */
  wait: 6,
  /** Nothing: the place of a request that is made only where a kernel is chosen that needs it. */
  none: 7,
  /** The first kernel of the process runs. A stream without it begins after that. */
  firstKernel: 8,
} as const;

/**
 * The requests of a job in their order. `slot` numbers the allocations of the stream from 0; a free
 * names the slot of its allocation.
 */
export interface EventStream {
  readonly length: number;
  /** How many allocations there are. */
  readonly slots: number;
  readonly kind: Uint8Array;
  readonly slot: Int32Array;
  readonly bytes: Float64Array;
  /** By slot, the stream that asks; each stream has memory of its own. */
  readonly streams: Uint8Array;
  /** By slot, 1: the job can do without it, as with a workspace for which a slower kernel steps in. */
  readonly spare: Uint8Array;
  /** Names of moments, each at the number of the event that follows it. */
  readonly marks: readonly { readonly at: number; readonly name: string }[];
}

/** Enough for hours of training; 40 million events take 0.5 GB. */
const maxEvents = 40_000_000;

/**
 * Builds a stream event by event.
 *
 * @example
 * const builder = new EventStreamBuilder();
 * const weights = builder.alloc(4096);
 * builder.free(weights);
 * replay(builder.finish()).peakAllocatedBytes; // 4096
 */
export class EventStreamBuilder {
  #kind = new Uint8Array(4096);
  #slot = new Int32Array(4096);
  #bytes = new Float64Array(4096);
  #length = 0;
  #slots = 0;
  readonly #spare: number[] = [];
  readonly #streams: { slot: number; stream: number }[] = [];
  readonly #marks: { at: number; name: string }[] = [];

  /** How many events there are so far. */
  get length(): number {
    return this.#length;
  }

  /** A request of a stream; gives its slot. */
  alloc(bytes: number, stream = 0): number {
    if (!(Number.isSafeInteger(bytes) && bytes > 0 && bytes <= largestRequest)) {
      throw new Failure({
        kind: 'input',
        code: 'bad-event',
        fact: `Event ${this.#length} asks for ${bytes} bytes.`,
        next: 'Record 1 byte to 1 PiB; leave empty tensors out.',
      });
    }
    const slot = this.#slots;
    this.#slots += 1;
    if (stream !== 0) this.#streams.push({ slot, stream });
    this.#add(eventKind.alloc, slot, bytes);
    return slot;
  }

  /** A request that the job can do without: where memory is short, it goes on as if it had not asked. */
  allocSpare(bytes: number): number {
    const slot = this.alloc(bytes);
    this.#spare.push(slot);
    return slot;
  }

  free(slot: number): void {
    this.#add(eventKind.free, slot, 0);
  }

  /**
   * Scratch memory that the job can do without, given back at once: two events. With 0 bytes they keep
   * its place. Gives its slot.
   */
  scratch(bytes: number): number {
    if (bytes > 0) {
      const slot = this.allocSpare(bytes);
      this.free(slot);
      return slot;
    }
    const slot = this.#slots;
    this.#slots += 1;
    this.#spare.push(slot);
    this.#add(eventKind.none, slot, 0);
    this.#add(eventKind.none, slot, 0);
    return slot;
  }

  /** Another stream works on an allocation (`record_stream`). */
  use(slot: number): void {
    this.#add(eventKind.use, slot, 0);
  }

  /** The host waited for the first `count` frees of what other streams used. */
  wait(count: number): void {
    this.#add(eventKind.wait, 0, count);
  }

  emptyCache(): void {
    this.#add(eventKind.emptyCache, 0, 0);
  }

  resetPeaks(): void {
    this.#add(eventKind.resetPeaks, 0, 0);
  }

  /** The driver or a library takes address space for itself. */
  takeAddresses(bytes: number): void {
    this.#add(eventKind.takeAddresses, 0, bytes);
  }

  /** The first kernel of the process runs; what was asked for before it came to a fresh process. */
  firstKernel(): void {
    this.#add(eventKind.firstKernel, 0, 0);
  }

  mark(name: string): void {
    this.#marks.push({ at: this.#length, name });
  }

  finish(): EventStream {
    const spare = new Uint8Array(this.#slots);
    for (const slot of this.#spare) spare[slot] = 1;
    const streams = new Uint8Array(this.#slots);
    for (const { slot, stream } of this.#streams) streams[slot] = stream;
    return {
      spare,
      streams,
      length: this.#length,
      slots: this.#slots,
      kind: this.#kind.slice(0, this.#length),
      slot: this.#slot.slice(0, this.#length),
      bytes: this.#bytes.slice(0, this.#length),
      marks: [...this.#marks],
    };
  }

  #add(kind: number, slot: number, bytes: number): void {
    if (this.#length === this.#kind.length) this.#grow();
    this.#kind[this.#length] = kind;
    this.#slot[this.#length] = slot;
    this.#bytes[this.#length] = bytes;
    this.#length += 1;
  }

  #grow(): void {
    const length = this.#length * 2;
    if (length > maxEvents * 2) {
      throw new Failure({
        kind: 'input',
        code: 'too-many-events',
        fact: `The recording has more than ${maxEvents} events.`,
        next: 'Record fewer steps: three show the peak.',
      });
    }
    const kind = new Uint8Array(length);
    kind.set(this.#kind);
    this.#kind = kind;
    const slot = new Int32Array(length);
    slot.set(this.#slot);
    this.#slot = slot;
    const bytes = new Float64Array(length);
    bytes.set(this.#bytes);
    this.#bytes = bytes;
  }
}
