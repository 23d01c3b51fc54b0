import { Room } from './room.js';

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
