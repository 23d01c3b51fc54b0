import { type EventStream, eventKind } from './event-stream.js';

/**
 * Events of a stream in another order. They are copied many at a time: there are up to millions.
 *
 * @example
 * const events = new CopiedEvents(stream);
 * events.copy(100, 200);
 * events.copy(0, 100);
 * replay(events.finish()).peakReservedBytes;
 */
export class CopiedEvents {
  readonly #stream: EventStream;
  readonly #kind: Uint8Array;
  readonly #slot: Int32Array;
  readonly #bytes: Float64Array;
  #length = 0;

  constructor(stream: EventStream) {
    this.#stream = stream;
    // Each event once, and each free once more.
    const most = stream.length + stream.slots;
    this.#kind = new Uint8Array(most);
    this.#slot = new Int32Array(most);
    this.#bytes = new Float64Array(most);
  }

  /** The events from `from` on, before `to`. */
  copy(from: number, to: number): void {
    if (to <= from) return;
    this.#kind.set(this.#stream.kind.subarray(from, to), this.#length);
    this.#slot.set(this.#stream.slot.subarray(from, to), this.#length);
    this.#bytes.set(this.#stream.bytes.subarray(from, to), this.#length);
    this.#length += to - from;
  }

  free(slots: readonly number[]): void {
    for (const slot of slots) {
      this.#kind[this.#length] = eventKind.free;
      this.#slot[this.#length] = slot;
      this.#length += 1;
    }
  }

  finish(): EventStream {
    const length = this.#length;
    return {
      ...this.#stream,
      length,
      kind: this.#kind.subarray(0, length),
      slot: this.#slot.subarray(0, length),
      bytes: this.#bytes.subarray(0, length),
      // Parts are as long as those that they take the place of, or nearly.
      marks: this.#stream.marks.map(({ at, name }) => ({ at: Math.min(at, length), name })),
    };
  }
}
