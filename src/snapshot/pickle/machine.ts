import type { SnapshotBuilder } from '../records/builder.js';
import { limits, refuseCode, refuseCut, refuseLimit, refuseSnapshot } from '../refusals.js';
import { Room } from '../tables/stack-table.js';
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

/** The state of a pickle's machine, and the operations shared by several opcodes. */
class MachineState {
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
const absent = -1;

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
function uint32(bytes: Uint8Array, at: number): number {
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
function float64(bytes: Uint8Array, at: number): number {
  for (let byte = 0; byte < 8; byte += 1) eight.setUint8(byte, bytes[at + byte] ?? 0);
  return eight.getFloat64(0);
}

/** A positive number of a few bytes, the lowest first; exact below 2^53. */
function littleEndian(bytes: Uint8Array, from: number, length: number): number {
  let number = 0;
  for (let at = from + length - 1; at >= from; at -= 1) number = number * 256 + (bytes[at] ?? 0);
  return number;
}

/** More than any opcode with a length of one byte takes; longer ones ask for their bytes. */
export const margin = 512;

/**
 * Runs the opcodes of a pickle that carry plain data, and no others, straight into the columns of a
 * builder. Hand it the bytes in pieces: `run` answers how far it got.
 *
 * The opcodes stand as numbers, with the names that Python gives them: only so the engine makes one
 * jump of the choice, and this loop runs some ten million times a second.
 */
export class PickleMachine extends MachineState {
  /**
   * Runs what lies in `bytes[0..end)` and answers the first byte that it did not take. The rest must
   * come again at the front of the next piece. Behind the end of the `last` piece there must be at
   * least `margin` more bytes, which are not looked into.
   */
  run(bytes: Uint8Array, end: number, last: boolean): number {
    const builder = this.builder;
    const stack = this.stack;
    const memo = this.memo;
    const limit = last ? end : end - margin;
    let { tags, numbers } = stack;
    let places = memo.column;
    let known = memo.length;
    let top = this.top;
    let at = 0;
    // Protocols 2 and up begin by saying which they are.
    if (this.before === 0 && limit > 0 && bytes[0] !== 0x80) this.refuseOpcode(0, 0);
    while (at < limit) {
      if (top + 4 > tags.length) {
        stack.grow(this.before + at);
        ({ tags, numbers } = stack);
      }
      const opcode = bytes[at] ?? 0;
      switch (opcode) {
        case 0x6a: {
          // LONG_BINGET; the frames of a stack are many of them in a row.
          const room = tags.length - 4;
          do {
            const index = uint32(bytes, at + 1);
            const tag = index < known ? (places[index] ?? absent) : absent;
            tags[top] = tag === absent ? memo.get(index) : tag;
            top += 1;
            at += 5;
          } while (bytes[at] === 0x6a && at < limit && top < room);
          break;
        }
        case 0x68: {
          // BINGET
          const index = bytes[at + 1] ?? 0;
          const tag = index < known ? (places[index] ?? absent) : absent;
          tags[top] = tag === absent ? memo.get(index) : tag;
          top += 1;
          at += 2;
          break;
        }
        case 0x94: {
          // MEMOIZE
          const tag = tags[this.needs(1, top, at) - 1] ?? 0;
          if (memo.addNext(tag)) {
            known += 1;
          } else {
            memo.put(known, tag);
            places = memo.column;
            known = memo.length;
          }
          at += 1;
          break;
        }
        case 0x8a: {
          // LONG1
          const length = bytes[at + 1] ?? 0;
          // Positive and below 2^53; a byte more than it needs holds the sign.
          const highest = bytes[at + 1 + length] ?? 0;
          if (length > 0 && length <= 7 && highest < (length === 7 ? 0x20 : 0x80)) {
            const low = uint32(bytes, at + 2);
            const high =
              (bytes[at + 6] ?? 0) | ((bytes[at + 7] ?? 0) << 8) | ((bytes[at + 8] ?? 0) << 16);
            const number =
              length === 7
                ? high * 2 ** 32 + low
                : length === 6
                  ? (high & 0xffff) * 2 ** 32 + low
                  : littleEndian(bytes, at + 2, length);
            tags[top] = value.integerTag;
            numbers[top] = number;
          } else {
            this.pushWide(bytes, at + 2, length, top);
          }
          top += 1;
          at += 2 + length;
          break;
        }
        case 0x28: // MARK
          if (this.openMarks >= limits.openMarks) {
            refuseLimit('lists inside of lists', limits.openMarks, this.before + at);
          }
          this.marks[this.openMarks] = top;
          this.openMarks += 1;
          at += 1;
          break;
        case 0x4b: // BININT1
          tags[top] = value.integerTag;
          numbers[top] = bytes[at + 1] ?? 0;
          top += 1;
          at += 2;
          break;
        case 0x4d: // BININT2
          tags[top] = value.integerTag;
          numbers[top] = (bytes[at + 1] ?? 0) | ((bytes[at + 2] ?? 0) << 8);
          top += 1;
          at += 3;
          break;
        case 0x4a: // BININT
          tags[top] = value.integerTag;
          numbers[top] = uint32(bytes, at + 1) | 0;
          top += 1;
          at += 5;
          break;
        case 0x7d: // EMPTY_DICT
          tags[top] = value.objectTag | builder.newDict();
          top += 1;
          at += 1;
          break;
        case 0x75: {
          // SETITEMS
          const from = this.closeMark(at);
          if ((top - from) % 2 !== 0) this.refuseAt('a dict has a key without a value', at);
          this.setItems(from, top, at);
          top = from;
          at += 1;
          break;
        }
        case 0x8c: // SHORT_BINUNICODE
        case 0x55: {
          // SHORT_BINSTRING
          const length = bytes[at + 1] ?? 0;
          if (at + 2 + length > end) refuseCut(this.before + end);
          tags[top] = value.stringTag | builder.strings.idOf(bytes, at + 2, at + 2 + length);
          top += 1;
          at += 2 + length;
          break;
        }
        case 0x5d: // EMPTY_LIST
        case 0x8f: // EMPTY_SET
        case 0x29: // EMPTY_TUPLE
          tags[top] = value.objectTag | builder.newList();
          top += 1;
          at += 1;
          break;
        case 0x65: // APPENDS
        case 0x90: {
          // ADDITEMS
          const from = this.closeMark(at);
          this.append(from, top, at);
          top = from;
          at += 1;
          break;
        }
        case 0x61: {
          // APPEND
          const from = this.needs(2, top, at) - 1;
          this.append(from, top, at);
          top = from;
          at += 1;
          break;
        }
        case 0x73: {
          // SETITEM
          const from = this.needs(3, top, at) - 2;
          this.setItems(from, top, at);
          top = from;
          at += 1;
          break;
        }
        case 0x71: // BINPUT
          memo.put(bytes[at + 1] ?? 0, tags[this.needs(1, top, at) - 1] ?? 0);
          places = memo.column;
          known = memo.length;
          at += 2;
          break;
        case 0x72: // LONG_BINPUT
          memo.put(uint32(bytes, at + 1), tags[this.needs(1, top, at) - 1] ?? 0);
          places = memo.column;
          known = memo.length;
          at += 5;
          break;
        case 0x4e: // NONE
          tags[top] = value.none;
          top += 1;
          at += 1;
          break;
        case 0x89: // NEWFALSE
          tags[top] = value.falseTag;
          top += 1;
          at += 1;
          break;
        case 0x88: // NEWTRUE
          tags[top] = value.trueTag;
          top += 1;
          at += 1;
          break;
        case 0x47: // BINFLOAT
          tags[top] = value.floatTag;
          numbers[top] = float64(bytes, at + 1);
          top += 1;
          at += 9;
          break;
        case 0x85: // TUPLE1
        case 0x86: // TUPLE2
        case 0x87: {
          // TUPLE3
          const from = this.needs(opcode - 0x84, top, at) - (opcode - 0x84);
          tags[from] = builder.tuple(stack, from, top);
          top = from + 1;
          at += 1;
          break;
        }
        case 0x74: // TUPLE
        case 0x6c: // LIST
        case 0x91: {
          // FROZENSET
          const from = this.closeMark(at);
          tags[from] = builder.tuple(stack, from, top);
          top = from + 1;
          at += 1;
          break;
        }
        case 0x2e: // STOP
          this.needs(1, top, at);
          if (at >= end) refuseCut(this.before + end);
          this.result = tags[top - 1] ?? 0;
          this.top = top;
          return at + 1;
        case 0x80: // PROTO
          this.begin(bytes[at + 1] ?? 0, at);
          at += 2;
          break;
        case 0x95: // FRAME
          this.frame(bytes, at);
          at += 9;
          break;
        default: {
          const next = this.#rare(opcode, bytes, at, end, last, top);
          if (next === at) {
            this.#leave(top, at);
            return at;
          }
          top = this.top;
          at = next;
        }
      }
    }
    // The last piece has no more to come, and no STOP was met.
    if (last) refuseCut(this.before + end);
    this.#leave(top, at);
    return at;
  }

  #leave(top: number, at: number): void {
    this.top = top;
    this.before += at;
  }

  /** Opcodes that are seldom met. Answers where to go on; where it was, when bytes are missing. */
  #rare(
    opcode: number,
    bytes: Uint8Array,
    at: number,
    end: number,
    last: boolean,
    top: number,
  ): number {
    this.top = top;
    switch (opcode) {
      case 0x64: {
        // DICT
        const from = this.closeMark(at);
        if ((top - from) % 2 !== 0) this.refuseAt('a dict has a key without a value', at);
        const dict = this.builder.newDict();
        this.builder.setItems(dict, this.stack, from, top);
        this.stack.tags[from] = value.objectTag | dict;
        this.top = from + 1;
        return at + 1;
      }
      case 0x30: // POP
      case 0x31: // POP_MARK
      case 0x32: // DUP
        this.discard(opcode, top, at);
        return at + 1;
      case 0x8b: {
        // LONG4
        const length = uint32(bytes, at + 1);
        if (length > limits.integerBytes) {
          refuseLimit(`an integer of ${length} bytes`, limits.integerBytes, this.before + at);
        }
        this.pushWide(bytes, at + 5, length, top);
        this.top = top + 1;
        return at + 5 + length;
      }
      case 0x58: // BINUNICODE
      case 0x54: // BINSTRING
      case 0x42: // BINBYTES
        return this.#text(opcode, bytes, at, 5, uint32(bytes, at + 1), end, last);
      case 0x43: // SHORT_BINBYTES
        return this.#text(opcode, bytes, at, 2, bytes[at + 1] ?? 0, end, last);
      case 0x8d: // BINUNICODE8
      case 0x8e: // BINBYTES8
      case 0x96: {
        // BYTEARRAY8
        const length = uint32(bytes, at + 1) + uint32(bytes, at + 5) * 2 ** 32;
        return this.#text(opcode, bytes, at, 9, length, end, last);
      }
      default:
        return this.refuseOpcode(opcode, at);
    }
  }

  #text(
    opcode: number,
    bytes: Uint8Array,
    at: number,
    head: number,
    length: number,
    end: number,
    last: boolean,
  ): number {
    if (length > limits.stringBytes) {
      refuseLimit(`a string of ${length} bytes`, limits.stringBytes, this.before + at);
    }
    const from = at + head;
    if (from + length > end) return last ? refuseCut(this.before + end) : at;
    const isText = opcode === 0x58 || opcode === 0x8d || opcode === 0x54;
    this.stack.tags[this.top] = isText
      ? value.stringTag | this.builder.strings.idOf(bytes, from, from + length)
      : value.opaque;
    this.top += 1;
    return from + length;
  }
}
