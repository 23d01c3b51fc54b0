import { Room } from '../tables/room.js';

/** Not freed by the end of the recording. */
export const never = -1;
/** Allocated before the recording began. */
export const before = -1;

/** Every allocation that the recording shows, from its birth to its end, in columns. */
export class Lives {
  readonly #bytes: Room<Float64Array>;
  readonly #requested: Room<Float64Array>;
  readonly #born: Room<Int32Array>;
  readonly #freed: Room<Int32Array>;
  readonly #returned: Room<Int32Array>;
  readonly #stack: Room<Int32Array>;
  readonly #address: Room<Int32Array>;
  readonly #stream: Room<Uint16Array>;
  length = 0;

  constructor(expected: number) {
    this.#bytes = new Room(Float64Array, expected);
    this.#requested = new Room(Float64Array, expected);
    this.#born = new Room(Int32Array, expected);
    this.#freed = new Room(Int32Array, expected);
    this.#returned = new Room(Int32Array, expected);
    this.#stack = new Room(Int32Array, expected);
    this.#address = new Room(Int32Array, expected);
    this.#stream = new Room(Uint16Array, expected);
  }

  /** Bytes of the block, as the allocator counts them. */
  get bytes(): Float64Array {
    return this.#bytes.column;
  }
  /** Bytes that were asked for. */
  get requested(): Float64Array {
    return this.#requested.column;
  }
  /** The event that allocated it, or `before`. */
  get born(): Int32Array {
    return this.#born.column;
  }
  /** The event that freed it, or `never`. */
  get freed(): Int32Array {
    return this.#freed.column;
  }
  /** The event after which no stream used it any more, or `never`. */
  get returned(): Int32Array {
    return this.#returned.column;
  }
  get stack(): Int32Array {
    return this.#stack.column;
  }
  get address(): Int32Array {
    return this.#address.column;
  }
  get stream(): Uint16Array {
    return this.#stream.column;
  }

  add(
    bytes: number,
    requested: number,
    born: number,
    stack: number,
    address: number,
    stream: number,
  ): number {
    const life = this.length;
    this.length += 1;
    this.#bytes.upTo(life)[life] = bytes;
    this.#requested.upTo(life)[life] = requested;
    this.#born.upTo(life)[life] = born;
    this.#freed.upTo(life)[life] = never;
    this.#returned.upTo(life)[life] = never;
    this.#stack.upTo(life)[life] = stack;
    this.#address.upTo(life)[life] = address;
    this.#stream.upTo(life)[life] = stream;
    return life;
  }
}
