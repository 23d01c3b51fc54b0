import { limits, refuseLimit } from '../refusals.js';
import { Room } from '../tables/room.js';

/** What a list or dict of the file turned out to be. */
export const shape = {
  newDict: 0,
  newList: 1,
  event: 2,
  frame: 3,
  block: 4,
  segment: 5,
  annotation: 6,
  /** A list of frames, by its number in the stack table. */
  stack: 7,
  /** A list of frames that came in more than one piece. */
  longStack: 8,
  /** A list of events, blocks, segments or annotations. */
  rows: 9,
  plainList: 10,
  plainDict: 11,
} as const;

const rowBits = 27;
const rowMask = 2 ** rowBits - 1;

/** One number for each list and dict: its shape in the upper bits, its row below. */
export class ObjectTable {
  readonly #entries: Room<Int32Array>;
  #length = 0;

  constructor(expected: number) {
    this.#entries = new Room(Int32Array, expected);
  }

  add(shapeCode: number, row: number): number {
    const id = this.#length;
    if (id >= limits.objects) refuseLimit('lists and dicts', limits.objects);
    this.#length += 1;
    this.#entries.upTo(id)[id] = (shapeCode << rowBits) | row;
    return id;
  }

  shapeOf(id: number): number {
    return (this.#entries.column[id] ?? 0) >> rowBits;
  }

  rowOf(id: number): number {
    return (this.#entries.column[id] ?? 0) & rowMask;
  }

  become(id: number, shapeCode: number, row: number): void {
    this.#entries.column[id] = (shapeCode << rowBits) | row;
  }
}
