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
