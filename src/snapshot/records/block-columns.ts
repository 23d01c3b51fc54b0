import { Room } from '../tables/room.js';

/** The blocks of all segments as they are read, one row each. */
export class BlockColumns {
  readonly address = new Room(Int32Array);
  readonly size = new Room(Float64Array);
  readonly requested = new Room(Float64Array);
  readonly state = new Room(Uint8Array);
  readonly stack = new Room(Int32Array);
  length = 0;

  add(address: number, size: number, requested: number, state: number, stack: number): number {
    const row = this.length;
    this.length += 1;
    this.address.upTo(row)[row] = address;
    this.size.upTo(row)[row] = size;
    this.requested.upTo(row)[row] = requested;
    this.state.upTo(row)[row] = state;
    this.stack.upTo(row)[row] = stack;
    return row;
  }
}
