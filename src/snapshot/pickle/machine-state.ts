import type { SnapshotBuilder } from '../records/builder.js';
import { limits, refuseCode, refuseLimit, refuseSnapshot } from '../refusals.js';
import { Room } from '../tables/room.js';
import * as value from './values.js';
import { kind, kindOf, stringTag, ValueStack } from './values.js';

/** Opcodes that import, call, or reach outside of the file, and what each would do. */
const refusedOpcodes: ReadonlyMap<number, readonly [name: string, what: string]> = new Map([
  [0x63, ['GLOBAL', 'import a name']],
  [0x93, ['STACK_GLOBAL', 'import a name']],
  [0x52, ['REDUCE', 'call a function']],
  [0x69, ['INST', 'import and call a class']],
  [0x6f, ['OBJ', 'call a class']],
  [0x81, ['NEWOBJ', 'call a class']],
  [0x92, ['NEWOBJ_EX', 'call a class']],
  [0x62, ['BUILD', 'set the state of an object']],
  [0x82, ['EXT1', 'import a registered name']],
  [0x83, ['EXT2', 'import a registered name']],
  [0x84, ['EXT4', 'import a registered name']],
  [0x50, ['PERSID', 'ask the program for an object']],
  [0x51, ['BINPERSID', 'ask the program for an object']],
  [0x97, ['NEXT_BUFFER', 'ask the program for a buffer']],
  [0x98, ['READONLY_BUFFER', 'change a buffer of the program']],
]);

/** Opcodes of protocol 0, written as text; protocols 2 to 5 do not use them. */
const textOpcodes: ReadonlyMap<number, string> = new Map([
  [0x46, 'FLOAT'],
  [0x49, 'INT'],
  [0x4c, 'LONG'],
  [0x53, 'STRING'],
  [0x56, 'UNICODE'],
  [0x67, 'GET'],
  [0x70, 'PUT'],
]);

/** What a pickle's machine has in hand, and what several opcodes do with it. */
export class MachineState {
  /** The value that STOP left, once it was met. */
  result: number | undefined;
  protocol = 0;
  readonly builder: SnapshotBuilder;
  readonly stack = new ValueStack();
  readonly memo: Memo;
  readonly marks = new Int32Array(limits.openMarks);
  openMarks = 0;
  top = 0;
  discards = 0;
  /** Bytes of the pickle before the piece at hand. */
  before = 0;
  frameEnd = 0;

  constructor(builder: SnapshotBuilder, expectedBytes: number) {
    this.builder = builder;
    this.memo = new Memo(Math.ceil(expectedBytes / 16));
  }

  pushWide(bytes: Uint8Array, from: number, length: number, top: number): void {
    const wide = wideInteger(bytes, from, length);
    // Negative and longer ones stand as numbers: no record of a snapshot has them.
    const isWide = wide.fits && !wide.exact;
    this.stack.tags[top] = isWide ? value.wideTag : value.integerTag;
    this.stack.numbers[top] = wide.fits || wide.number < 0 ? wide.number : Number.NaN;
    this.stack.high[top] = wide.high;
    this.stack.low[top] = wide.low;
  }

  setItems(from: number, to: number, at: number): void {
    const tag = from > 0 ? (this.stack.tags[from - 1] ?? 0) : 0;
    if (value.kindOf(tag) !== value.kind.object) this.refuseAt('keys are set on no dict', at);
    this.builder.setItems(tag & value.payloadMask, this.stack, from, to);
  }

  append(from: number, to: number, at: number): void {
    const tag = from > 0 ? (this.stack.tags[from - 1] ?? 0) : 0;
    if (value.kindOf(tag) !== value.kind.object) this.refuseAt('values are put into no list', at);
    this.builder.append(tag & value.payloadMask, this.stack, from, to);
  }

  /** The lowest value that belongs to the last mark; the mark is gone then. */
  closeMark(at: number): number {
    if (this.openMarks === 0) this.refuseAt('a list ends that never began', at);
    this.openMarks -= 1;
    return this.marks[this.openMarks] ?? 0;
  }

  /** Makes sure that so many values lie above the last mark. */
  needs(count: number, top: number, at: number): number {
    const floor = this.openMarks > 0 ? (this.marks[this.openMarks - 1] ?? 0) : 0;
    if (top - count < floor) this.refuseAt('it uses a value that is not there', at);
    return top;
  }

  begin(protocol: number, at: number): void {
    if (this.before + at !== 0) this.refuseAt('it names its protocol twice', at);
    if (protocol < 2 || protocol > 5) {
      refuseSnapshot(`it is a pickle of protocol ${protocol}; 2 to 5 are read`);
    }
    this.protocol = protocol;
  }

  /** Frames only help to read ahead; one must end before the next begins, and hold something. */
  frame(bytes: Uint8Array, at: number): void {
    const length = uint32(bytes, at + 1) + uint32(bytes, at + 5) * 2 ** 32;
    const here = this.before + at;
    if (here < this.frameEnd || length === 0) this.refuseAt('its frames do not fit together', at);
    this.frameEnd = here + 9 + length;
  }

  discard(opcode: number, top: number, at: number): void {
    this.discards += 1;
    if (this.discards > limits.discards) {
      refuseLimit('opcodes that throw values away', limits.discards, this.before + at);
    }
    if (opcode === 0x31) {
      this.top = this.closeMark(at);
    } else if (opcode === 0x32) {
      const from = this.needs(1, top, at) - 1;
      for (const column of [this.stack.tags, this.stack.numbers]) column[top] = column[from] ?? 0;
      this.stack.high[top] = this.stack.high[from] ?? 0;
      this.stack.low[top] = this.stack.low[from] ?? 0;
      this.top = top + 1;
    } else if (this.openMarks > 0 && this.marks[this.openMarks - 1] === top) {
      // Python's POP takes a mark, too, where a mark lies on top.
      this.closeMark(at);
    } else {
      this.top = this.needs(1, top, at) - 1;
    }
  }

  refuseOpcode(opcode: number, at: number): never {
    const here = this.before + at;
    const refused = refusedOpcodes.get(opcode);
    if (refused) refuseCode(refused[0], refused[1], here);
    const text = textOpcodes.get(opcode);
    if (text) refuseSnapshot(`it has the opcode ${text} of protocol 0 at byte ${here}`);
    if (this.protocol === 0) refuseSnapshot('it does not begin as a pickle does');
    return refuseSnapshot(`byte ${here} (0x${opcode.toString(16)}) is not an opcode of plain data`);
  }

  refuseAt(why: string, at: number): never {
    return refuseSnapshot(`${why} (byte ${this.before + at})`);
  }
}

/** Nothing was put here. */
export const absent = -1;

/** Values that are used again, by number. Python numbers them one after another. */
class Memo {
  readonly #room: Room<Int32Array>;
  #length = 0;
  #last = absent;
  #repeats = 0;

  constructor(expected: number) {
    this.#room = new Room(Int32Array, expected);
  }

  get length(): number {
    return this.#length;
  }

  /** For the reader's inner loop: valid until the next `put`. */
  get column(): Int32Array {
    return this.#room.column;
  }

  /** Puts a list, dict or string at the next place, where that is all there is to it. */
  addNext(tag: number): boolean {
    const { column } = this.#room;
    const next = this.#length;
    if (tag < stringTag || tag === this.#last || next >= column.length) return false;
    column[next] = tag;
    this.#last = tag;
    this.#repeats = 0;
    this.#length = next + 1;
    return true;
  }

  put(index: number, tag: number): void {
    // A number far beyond the last one would make room for nothing.
    if (index > this.#length + limits.openMarks) {
      refuseSnapshot(`its memo jumps from place ${this.#length} to ${index}`);
    }
    if (index >= limits.memoEntries) refuseLimit('places in its memo', limits.memoEntries);
    const what = kindOf(tag);
    if (what === kind.integer || what === kind.wide || what === kind.float) {
      refuseSnapshot('it has a bare number in its memo');
    }
    if (tag === this.#last) this.#repeats += 1;
    else this.#repeats = 0;
    this.#last = tag;
    // Python keeps a value once; equal strings may follow one another, but not for long.
    if (this.#repeats > limits.openMarks) refuseSnapshot('its memo holds one value over and over');
    const column = this.#room.upTo(index);
    while (this.#length < index) {
      column[this.#length] = absent;
      this.#length += 1;
    }
    column[index] = tag;
    if (index === this.#length) this.#length += 1;
  }

  get(index: number): number {
    const tag = index < this.#length ? (this.#room.column[index] ?? absent) : absent;
    if (tag === absent) refuseSnapshot(`it refers to place ${index} of its memo, which is empty`);
    return tag;
  }
}

/** A whole number of up to 8 bytes (and a sign) as a pickle writes it: little-endian, signed. */
interface WideInteger {
  /** Exact below 2^53; rounded above. */
  readonly number: number;
  /** The upper and lower half of the 64 bits. */
  readonly high: number;
  readonly low: number;
  readonly exact: boolean;
  /** It fits into 64 bits without a sign. */
  readonly fits: boolean;
}

/**
 * Reads LONG1 and LONG4 beyond 6 bytes; the shorter ones are read where they are met.
 *
 * @example
 * wideInteger(Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0x80, 0), 0, 9).high; // 2147483648
 */
function wideInteger(bytes: Uint8Array, from: number, length: number): WideInteger {
  const sign = length > 0 && ((bytes[from + length - 1] ?? 0) & 0x80) !== 0 ? 0xff : 0;
  const byteAt = (at: number): number => (at < length ? (bytes[from + at] ?? 0) : sign);
  const word = (at: number): number =>
    (byteAt(at) | (byteAt(at + 1) << 8) | (byteAt(at + 2) << 16) | (byteAt(at + 3) << 24)) >>> 0;
  const low = word(0);
  const high = word(4);
  let fits = sign === 0;
  for (let at = 8; at < length; at += 1) if ((bytes[from + at] ?? 0) !== sign) fits = false;
  const number = sign === 0 ? high * 2 ** 32 + low : -((~high >>> 0) * 2 ** 32 + (~low >>> 0)) - 1;
  return { number, high, low, fits, exact: fits && high < 2 ** 21 };
}

/** Four bytes, the lowest first. */
export function uint32(bytes: Uint8Array, at: number): number {
  return (
    ((bytes[at] ?? 0) |
      ((bytes[at + 1] ?? 0) << 8) |
      ((bytes[at + 2] ?? 0) << 16) |
      ((bytes[at + 3] ?? 0) << 24)) >>>
    0
  );
}

const eight = new DataView(new ArrayBuffer(8));

/** Floats of a pickle are big-endian. */
export function float64(bytes: Uint8Array, at: number): number {
  for (let byte = 0; byte < 8; byte += 1) eight.setUint8(byte, bytes[at + byte] ?? 0);
  return eight.getFloat64(0);
}

/** A positive number of a few bytes, the lowest first; exact below 2^53. */
export function littleEndian(bytes: Uint8Array, from: number, length: number): number {
  let number = 0;
  for (let at = from + length - 1; at >= from; at -= 1) number = number * 256 + (bytes[at] ?? 0);
  return number;
}
