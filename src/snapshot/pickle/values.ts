import { limits, refuseLimit } from '../refusals.js';

/**
 * A value of the pickle is one number: what kind it is in the upper bits, which one in the lower 28.
 * Integers and floats stand in a second column beside it. No JavaScript object is made for a value.
 */
export const kind = {
  /** None, False, True, or bytes that are not looked at. */
  constant: 0,
  integer: 1,
  /** An integer beyond 2^53: its two halves stand in columns of their own. */
  wide: 2,
  float: 3,
  string: 4,
  /** A list, dict or tuple, by its number in the object table. */
  object: 5,
  /** A tuple of two small integers, by its number: the name of a memory pool. */
  pair: 6,
} as const;

const payloadBits = 28;
export const payloadMask = 2 ** payloadBits - 1;

export const none = 0;
export const opaque = 3;
export const integerTag = kind.integer << payloadBits;
export const wideTag = kind.wide << payloadBits;
export const floatTag = kind.float << payloadBits;
export const stringTag = kind.string << payloadBits;
export const objectTag = kind.object << payloadBits;
export const pairTag = kind.pair << payloadBits;

export function kindOf(tag: number): number {
  return tag >> payloadBits;
}

export const falseTag = 1;
export const trueTag = 2;

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
