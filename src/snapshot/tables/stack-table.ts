import { limits, refuseLimit } from '../refusals.js';
import { Room } from './room.js';

/**
 * Call stacks, each different one once: PyTorch writes a list for every allocation, and most of them
 * have the same content. Stack 0 is the empty one. Frames run from the innermost outwards.
 */
export class StackTable {
  readonly #frames = new Room(Int32Array, 256);
  readonly #start = new Room(Int32Array);
  #slots = new Int32Array(128).fill(-1);
  #length = 0;
  #filled = 0;

  constructor() {
    this.idOf(new Int32Array(0), 0, 0);
  }

  get length(): number {
    return this.#length;
  }

  /** All frames of all stacks; a stack is a range of it. */
  get frames(): Int32Array {
    return this.#frames.column;
  }

  startOf(id: number): number {
    return this.#start.column[id] ?? 0;
  }

  endOf(id: number): number {
    return id + 1 < this.#length ? (this.#start.column[id + 1] ?? 0) : this.#filled;
  }

  /** The number of the stack whose frames stand in `from[start..end)`. */
  idOf(from: Int32Array, start: number, end: number): number {
    const mask = this.#slots.length - 1;
    let slot = hashOf(from, start, end) & mask;
    let id = this.#slots[slot] ?? -1;
    while (id !== -1) {
      if (this.#isEqual(id, from, start, end)) return id;
      slot = (slot + 1) & mask;
      id = this.#slots[slot] ?? -1;
    }
    return this.#add(slot, from, start, end);
  }

  #isEqual(id: number, from: Int32Array, start: number, end: number): boolean {
    const own = this.startOf(id);
    if (this.endOf(id) - own !== end - start) return false;
    const frames = this.#frames.column;
    for (let at = start; at < end; at += 1) {
      if (frames[own + at - start] !== from[at]) return false;
    }
    return true;
  }

  #add(slot: number, from: Int32Array, start: number, end: number): number {
    const size = end - start;
    if (size > limits.framesInStack) refuseLimit('frames in one stack', limits.framesInStack);
    if (this.#filled + size > limits.framesOfStacks) {
      refuseLimit('frames in different stacks', limits.framesOfStacks);
    }
    const id = this.#length;
    this.#length += 1;
    this.#start.upTo(id)[id] = this.#filled;
    this.#frames.upTo(this.#filled + size).set(from.subarray(start, end), this.#filled);
    this.#filled += size;
    this.#slots[slot] = id;
    if (this.#length * 2 > this.#slots.length) this.#rehash();
    return id;
  }

  #rehash(): void {
    const slots = new Int32Array(this.#slots.length * 2).fill(-1);
    const mask = slots.length - 1;
    for (let id = 0; id < this.#length; id += 1) {
      let slot = hashOf(this.#frames.column, this.startOf(id), this.endOf(id)) & mask;
      while (slots[slot] !== -1) slot = (slot + 1) & mask;
      slots[slot] = id;
    }
    this.#slots = slots;
  }
}

function hashOf(from: Int32Array, start: number, end: number): number {
  let hash = end - start;
  for (let at = start; at < end; at += 1) {
    hash = Math.imul(hash ^ (from[at] ?? 0), 0x9e3779b1);
    hash ^= hash >>> 15;
  }
  return hash;
}
