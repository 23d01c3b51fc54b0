import type { Failure } from '../../failure.js';

/** Bytes that can be read from any place: a file on disk, or memory in tests. */
export interface ByteSource {
  readonly size: number;
  /** Fills `into` from `position` on; answers how many bytes there were. */
  read(into: Uint8Array, position: number): number;
}

/** Small enough to cost nothing, large enough that a header takes a few reads. */
const chunkBytes = 256 * 1024;

/** Reads a part of a source from front to back in chunks, so that its size does not matter. */
export class ByteReader {
  readonly #source: ByteSource;
  readonly #end: number;
  readonly #fail: (what: string) => Failure;
  readonly #chunk: Uint8Array;
  #filled = 0;
  #at = 0;
  /** Where in the source the chunk begins. */
  #base: number;

  /** `end` is where reading must stop; `fail` makes the error when there is no more before it. */
  constructor(source: ByteSource, start: number, end: number, fail: (what: string) => Failure) {
    this.#source = source;
    this.#end = end;
    this.#fail = fail;
    this.#base = start;
    this.#chunk = new Uint8Array(Math.max(1, Math.min(chunkBytes, end - start)));
  }

  get position(): number {
    return this.#base + this.#at;
  }

  get left(): number {
    return this.#end - this.position;
  }

  /** The next byte, without passing it; -1 at the end. */
  peek(): number {
    if (this.#at === this.#filled && !this.#refill()) return -1;
    return this.#chunk[this.#at] ?? -1;
  }

  /** The next byte; -1 at the end. */
  next(): number {
    if (this.#at === this.#filled && !this.#refill()) return -1;
    return this.#chunk[this.#at++] ?? -1;
  }

  u8(): number {
    const byte = this.next();
    if (byte < 0) throw this.#ended();
    return byte;
  }

  u32(): number {
    let value = 0;
    for (let place = 1; place <= 2 ** 24; place *= 2 ** 8) value += this.u8() * place;
    return value;
  }

  /** A count or a place; more than a number holds exactly cannot be one. */
  u64(what: string): number {
    const low = this.u32();
    const value = low + this.u32() * 2 ** 32;
    if (value > Number.MAX_SAFE_INTEGER) throw this.#fail(`${what} is ${value}, too large`);
    return value;
  }

  /** A copy of the next bytes. The caller has checked that they are few. */
  bytes(length: number): Uint8Array {
    if (length > this.left) throw this.#ended();
    const result = new Uint8Array(length);
    for (let done = 0; done < length; ) {
      if (this.#at === this.#filled && !this.#refill()) throw this.#ended();
      const taken = Math.min(length - done, this.#filled - this.#at);
      result.set(this.#chunk.subarray(this.#at, this.#at + taken), done);
      this.#at += taken;
      done += taken;
    }
    return result;
  }

  /** Passes over bytes without reading them. */
  skip(length: number): void {
    if (length > this.left) throw this.#ended();
    if (length <= this.#filled - this.#at) {
      this.#at += length;
      return;
    }
    this.#base = this.position + length;
    this.#filled = 0;
    this.#at = 0;
  }

  #refill(): boolean {
    this.#base += this.#filled;
    this.#at = 0;
    const wanted = Math.min(this.#chunk.length, this.#end - this.#base);
    this.#filled = wanted > 0 ? this.#source.read(this.#chunk.subarray(0, wanted), this.#base) : 0;
    return this.#filled > 0;
  }

  #ended(): Failure {
    return this.#fail(`it ends at byte ${this.#source.size}, in the middle of its header`);
  }
}

/** How a file begins that Git LFS left in the place of the real one. */
const pointerStart = new TextEncoder().encode('version https://git-lfs.github.com/spec/');

/** A pointer is a short text; its format allows no more. */
const longestPointer = 1024;

/** Whether a clone without Git LFS left a pointer where the weights should be: a common slip. */
export function isLfsPointer(source: ByteSource): boolean {
  if (source.size > longestPointer || source.size < pointerStart.length) return false;
  const start = new Uint8Array(pointerStart.length);
  if (source.read(start, 0) !== pointerStart.length) return false;
  return pointerStart.every((byte, index) => byte === start[index]);
}
