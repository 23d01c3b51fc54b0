import { limits } from '../limits.js';
import type { SnapshotBuilder } from '../records/builder.js';
import { refuseCode, refuseLimit, refuseSnapshot } from '../refusals.js';
import { Memo } from './memo.js';
import { uint32, wideInteger } from './numbers.js';
import { refusedOpcodes, textOpcodes } from './opcodes.js';
import { ValueStack } from './value-stack.js';
import * as value from './values.js';

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
