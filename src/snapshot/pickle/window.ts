import { limits, refuseCut } from '../refusals.js';
import { margin, type PickleMachine } from './machine.js';

/** Holds the longest string twice over, so that what waits for more bytes always gets them. */
const largestWindow = 4 * limits.stringBytes;
const smallestWindow = 4096;

/** The piece of the file that is being read; a small part of it, however long the file is. */
export class PickleWindow {
  readonly #machine: PickleMachine;
  #bytes: Uint8Array;
  #filled = 0;
  #total = 0;

  constructor(machine: PickleMachine, expectedBytes: number) {
    this.#machine = machine;
    const size = Math.min(largestWindow, Math.max(smallestWindow, expectedBytes));
    this.#bytes = new Uint8Array(size + margin);
  }

  get isDone(): boolean {
    return this.#machine.result !== undefined;
  }

  /** Where the next bytes of the file go; never empty. */
  room(): Uint8Array {
    if (this.#filled + margin >= this.#bytes.length) {
      const larger = new Uint8Array(Math.max(this.#bytes.length * 2, largestWindow) + margin);
      larger.set(this.#bytes);
      this.#bytes = larger;
    }
    return this.#bytes.subarray(this.#filled, this.#bytes.length - margin);
  }

  /** So many bytes were put into `room()`. */
  filled(count: number): void {
    this.#filled += count;
    this.#total += count;
    this.#run(false);
  }

  /** Bytes that came from elsewhere. */
  push(chunk: Uint8Array): void {
    let rest = chunk;
    while (rest.length > 0 && !this.isDone) {
      const room = this.room();
      const count = Math.min(room.length, rest.length);
      room.set(rest.subarray(0, count));
      rest = rest.subarray(count);
      this.filled(count);
    }
  }

  /** There is no more. */
  end(): void {
    if (this.isDone) return;
    this.#bytes.fill(0, this.#filled, this.#filled + margin);
    this.#run(true);
    if (!this.isDone) refuseCut(this.#total);
  }

  #run(last: boolean): void {
    const used = this.#machine.run(this.#bytes, this.#filled, last);
    this.#bytes.copyWithin(0, used, this.#filled);
    this.#filled -= used;
  }
}
