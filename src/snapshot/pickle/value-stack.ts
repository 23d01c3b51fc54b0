import { limits } from '../limits.js';
import { refuseLimit } from '../refusals.js';

/** The values that wait, in columns. They grow as needed, so hold no column over a call to `grow`. */
export class ValueStack {
  tags = new Int32Array(512);
  numbers = new Float64Array(512);
  /** The halves of integers beyond 2^53, beside their tag. */
  high = new Uint32Array(512);
  low = new Uint32Array(512);

  grow(at: number): void {
    const length = this.tags.length * 2;
    if (length > limits.stackEntries) {
      refuseLimit('values waiting in no list', limits.stackEntries, at);
    }
    this.tags = enlarged(this.tags, new Int32Array(length));
    this.numbers = enlarged(this.numbers, new Float64Array(length));
    this.high = enlarged(this.high, new Uint32Array(length));
    this.low = enlarged(this.low, new Uint32Array(length));
  }
}

function enlarged<Column extends Int32Array | Uint32Array | Float64Array>(
  from: Column,
  to: Column,
): Column {
  to.set(from);
  return to;
}
