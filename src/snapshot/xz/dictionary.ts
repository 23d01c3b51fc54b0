import { refuseXz } from './bad-xz.js';

/** Takes what comes out; false: no more is wanted. */
export type Sink = (bytes: Uint8Array) => boolean;

/** The latest bytes that came out, which what follows may repeat. */
export class Dictionary {
  readonly #bytes: Uint8Array;
  #at = 0;
  #sent = 0;
  #total = 0;
  readonly #sink: (bytes: Uint8Array) => void;

  constructor(size: number, sink: (bytes: Uint8Array) => void) {
    this.#bytes = new Uint8Array(size);
    this.#sink = sink;
  }

  /** Bytes since the last reset. */
  get total(): number {
    return this.#total;
  }

  reset(): void {
    this.flush();
    this.#total = 0;
  }

  put(byte: number): void {
    this.#bytes[this.#at] = byte;
    this.#at += 1;
    this.#total += 1;
    if (this.#at === this.#bytes.length) this.#wrap();
  }

  /** The byte that came out `distance` bytes ago; 1 is the last. */
  back(distance: number): number {
    const at = this.#at - distance;
    return this.#bytes[at < 0 ? at + this.#bytes.length : at] ?? 0;
  }

  /** Says again what came `distance` bytes ago; it may run into what it just said. */
  repeat(distance: number, length: number): void {
    if (distance > this.#total || distance > this.#bytes.length) {
      refuseXz('it repeats what it never said');
    }
    const bytes = this.#bytes;
    let from = this.#at - distance;
    if (from < 0) from += bytes.length;
    for (let left = length; left > 0; left -= 1) {
      this.put(bytes[from] ?? 0);
      from += 1;
      if (from === bytes.length) from = 0;
    }
  }

  /** Hands on what was not handed on yet. */
  flush(): void {
    if (this.#at > this.#sent) this.#sink(this.#bytes.subarray(this.#sent, this.#at));
    this.#sent = this.#at;
  }

  #wrap(): void {
    this.flush();
    this.#at = 0;
    this.#sent = 0;
  }
}
