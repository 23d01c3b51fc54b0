import { limits, refuseLimit } from '../refusals.js';

type Column = Uint8Array | Uint16Array | Int32Array | Uint32Array | Float64Array;

/**
 * A column that grows. Memory that is not written to yet costs nothing on the systems we know, so
 * a generous first size saves the copies.
 */
export class Room<Kind extends Column> {
  column: Kind;
  readonly #make: new (
    length: number,
  ) => Kind;

  constructor(make: new (length: number) => Kind, expected = 64) {
    this.#make = make;
    this.column = new make(Math.max(64, expected));
  }

  /** The column, long enough to hold something at `index`. */
  upTo(index: number): Kind {
    if (index >= this.column.length) this.#grow(index + 1);
    return this.column;
  }

  /** The first `length` entries, without the room behind them. */
  used(length: number): Kind {
    const made = this.column.subarray(0, length);
    // `subarray` of a column is a column of the same kind, which its type does not say.
    return isSame(made, this.#make) ? made : this.column;
  }

  #grow(length: number): void {
    const larger = new this.#make(Math.max(length, this.column.length * 2));
    larger.set(this.column);
    this.column = larger;
  }
}

function isSame<Kind extends Column>(
  column: Column,
  make: new (length: number) => Kind,
): column is Kind {
  return column instanceof make;
}

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

/**
 * Numbers that belong together, each different group once: groups of the same content have the same
 * number. Open addressing over flat columns; no object is made for a group.
 *
 * @example
 * const table = new TupleTable();
 * table.idOf(7, 9); // 0
 * table.idOf(7, 9); // 0
 */
export class TupleTable {
  readonly #first = new Room(Uint32Array);
  readonly #second = new Room(Uint32Array);
  readonly #third = new Room(Uint32Array);
  #slots = new Int32Array(64).fill(-1);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  get first(): Uint32Array {
    return this.#first.column;
  }

  get second(): Uint32Array {
    return this.#second.column;
  }

  get third(): Uint32Array {
    return this.#third.column;
  }

  /** The number of this group; a new one when it was not seen before. */
  idOf(first: number, second: number, third = 0): number {
    const mask = this.#slots.length - 1;
    const one = this.#first.column;
    const two = this.#second.column;
    const three = this.#third.column;
    let slot = scramble(first, second, third) & mask;
    let id = this.#slots[slot] ?? -1;
    while (id !== -1) {
      if (one[id] === first && two[id] === second && three[id] === third) return id;
      slot = (slot + 1) & mask;
      id = this.#slots[slot] ?? -1;
    }
    return this.#add(slot, first, second, third);
  }

  #add(slot: number, first: number, second: number, third: number): number {
    const id = this.#length;
    this.#length += 1;
    this.#first.upTo(id)[id] = first;
    this.#second.upTo(id)[id] = second;
    this.#third.upTo(id)[id] = third;
    this.#slots[slot] = id;
    if (this.#length * 2 > this.#slots.length) this.#rehash();
    return id;
  }

  #rehash(): void {
    const slots = new Int32Array(this.#slots.length * 2).fill(-1);
    const mask = slots.length - 1;
    for (let id = 0; id < this.#length; id += 1) {
      const place = [this.first[id] ?? 0, this.second[id] ?? 0, this.third[id] ?? 0] as const;
      let slot = scramble(...place) & mask;
      while (slots[slot] !== -1) slot = (slot + 1) & mask;
      slots[slot] = id;
    }
    this.#slots = slots;
  }
}

function scramble(first: number, second: number, third: number): number {
  let mixed = Math.imul(first ^ Math.imul(third, 0x9e3779b1), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 15) ^ second, 0xc2b2ae35);
  return mixed ^ (mixed >>> 13);
}
