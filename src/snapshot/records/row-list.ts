import { limits } from '../limits.js';
import { refuseLimit } from '../refusals.js';
import { Room } from '../tables/room.js';

/**
 * A list of rows of one shape. As long as they follow one another, which they do in what PyTorch
 * writes, a first row and a count are all of it; rows listed twice or out of order are written out.
 */
export class RowList {
  readonly shape: number;
  first = 0;
  length = 0;
  #order: Room<Int32Array> | undefined;

  constructor(shapeCode: number) {
    this.shape = shapeCode;
  }

  push(row: number): void {
    if (this.#order === undefined) {
      if (this.length === 0) this.first = row;
      if (row === this.first + this.length) {
        this.length += 1;
        return;
      }
      this.#order = new Room(Int32Array, this.length * 2);
      for (let at = 0; at < this.length; at += 1) this.#order.upTo(at)[at] = this.first + at;
    }
    if (this.length >= limits.events) refuseLimit('events', limits.events);
    this.#order.upTo(this.length)[this.length] = row;
    this.length += 1;
  }

  /** The rows one by one where they do not follow one another. */
  order(): Int32Array | undefined {
    return this.#order?.used(this.length);
  }

  at(index: number): number {
    return this.#order === undefined ? this.first + index : (this.#order.column[index] ?? 0);
  }
}
