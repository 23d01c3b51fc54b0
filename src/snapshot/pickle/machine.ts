import { limits, refuseCut, refuseLimit } from '../refusals.js';
import { absent, float64, littleEndian, MachineState, uint32 } from './machine-state.js';
import * as value from './values.js';

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
