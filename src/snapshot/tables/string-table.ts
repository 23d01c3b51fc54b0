import { limits } from '../limits.js';
import { refuseLimit } from '../refusals.js';
import { Room } from './room.js';

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** Strings of the file, each different one once, found by their bytes and decoded when asked for. */
export class StringTable {
  readonly #bytes = new Room(Uint8Array, 4096);
  readonly #start = new Room(Uint32Array, 256);
  #slots = new Int32Array(256).fill(-1);
  #length = 0;
  #filled = 0;

  constructor(known: readonly string[]) {
    const encoder = new TextEncoder();
    for (const text of known) {
      const bytes = encoder.encode(text);
      this.idOf(bytes, 0, bytes.length);
    }
  }

  get length(): number {
    return this.#length;
  }

  /** The number of the string in `from[start..end)`. */
  idOf(from: Uint8Array, start: number, end: number): number {
    let hash = end - start;
    for (let at = start; at < end; at += 1) hash = Math.imul(hash ^ (from[at] ?? 0), 0x01000193);
    hash ^= hash >>> 15;
    const mask = this.#slots.length - 1;
    let slot = hash & mask;
    let id = this.#slots[slot] ?? -1;
    while (id !== -1) {
      if (this.#isEqual(id, from, start, end)) return id;
      slot = (slot + 1) & mask;
      id = this.#slots[slot] ?? -1;
    }
    return this.#add(slot, from, start, end);
  }

  text(id: number): string {
    if (id < 0 || id >= this.#length) return '';
    const start = this.#start.column[id] ?? 0;
    return decoder.decode(this.#bytes.column.subarray(start, this.#end(id)));
  }

  #end(id: number): number {
    return id + 1 < this.#length ? (this.#start.column[id + 1] ?? 0) : this.#filled;
  }

  #isEqual(id: number, from: Uint8Array, start: number, end: number): boolean {
    const own = this.#start.column[id] ?? 0;
    if (this.#end(id) - own !== end - start) return false;
    const bytes = this.#bytes.column;
    for (let at = start; at < end; at += 1) {
      if (bytes[own + at - start] !== from[at]) return false;
    }
    return true;
  }

  #add(slot: number, from: Uint8Array, start: number, end: number): number {
    const size = end - start;
    if (this.#length >= limits.strings) refuseLimit('different strings', limits.strings);
    if (this.#filled + size > limits.allStringBytes) {
      refuseLimit('bytes of different strings', limits.allStringBytes);
    }
    const id = this.#length;
    this.#length += 1;
    this.#start.upTo(id)[id] = this.#filled;
    this.#bytes.upTo(this.#filled + size).set(from.subarray(start, end), this.#filled);
    this.#filled += size;
    this.#slots[slot] = id;
    if (this.#length * 2 > this.#slots.length) this.#rehash();
    return id;
  }

  #rehash(): void {
    const slots = new Int32Array(this.#slots.length * 2).fill(-1);
    const mask = slots.length - 1;
    const bytes = this.#bytes.column;
    for (let id = 0; id < this.#length; id += 1) {
      const start = this.#start.column[id] ?? 0;
      const end = this.#end(id);
      let hash = end - start;
      for (let at = start; at < end; at += 1) hash = Math.imul(hash ^ (bytes[at] ?? 0), 0x01000193);
      hash ^= hash >>> 15;
      let slot = hash & mask;
      while (slots[slot] !== -1) slot = (slot + 1) & mask;
      slots[slot] = id;
    }
    this.#slots = slots;
  }
}
