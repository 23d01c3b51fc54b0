import { limits, refuseLimit } from '../refusals.js';
import { Room, type TupleTable } from '../tables/stack-table.js';

/** A segment as the file has it; strings, stacks, addresses and pools by their numbers. */
export interface SegmentRow {
  readonly device: number;
  readonly address: number;
  readonly totalBytes: number;
  readonly allocatedBytes: number;
  readonly activeBytes: number;
  readonly requestedBytes: number;
  readonly stream: number;
  readonly type: number;
  readonly pool: number;
  readonly expandable: boolean;
  readonly stack: number;
  readonly blocks: RowList | undefined;
}

/** A mark of a program or a profiler on the time line: an optimizer's step, say. */
export interface AnnotationRow {
  readonly name: number;
  readonly stage: number;
  readonly device: number;
  readonly timeUs: number;
}

/** Receives records, and finds the objects that they refer to. */
export interface RecordTables {
  readonly events: EventColumns;
  readonly frames: TupleTable;
  readonly blocks: BlockColumns;
  readonly segments: SegmentRow[];
  readonly annotations: AnnotationRow[];
  readonly addresses: TupleTable;
  readonly streams: TupleTable;
  /** The stack that a value of the key `frames` stands for; 0 when it is empty. */
  stackOf(tag: number): number;
  /** The rows that a value stands for, when they are of this shape. */
  rowsOf(tag: number | undefined, shape: number): RowList | undefined;
}

/** The events as they are read, one row each. Columns are held as fields: this is the hot path. */
export class EventColumns {
  action: Uint8Array;
  address: Int32Array;
  bytes: Float64Array;
  timeUs: Float64Array;
  stream: Uint16Array;
  stack: Int32Array;
  /** Of the few out-of-memory events: what the device had left. */
  readonly deviceFree = new Map<number, number>();
  length = 0;
  #room: number;

  constructor(expected: number) {
    this.#room = Math.max(64, expected);
    this.action = new Uint8Array(this.#room);
    this.address = new Int32Array(this.#room);
    this.bytes = new Float64Array(this.#room);
    this.timeUs = new Float64Array(this.#room);
    this.stream = new Uint16Array(this.#room);
    this.stack = new Int32Array(this.#room);
  }

  add(
    code: number,
    address: number,
    bytes: number,
    timeUs: number,
    stream: number,
    stack: number,
  ): number {
    const row = this.length;
    if (row === this.#room) this.#grow();
    this.length = row + 1;
    this.action[row] = code;
    this.address[row] = address;
    this.bytes[row] = bytes;
    this.timeUs[row] = timeUs;
    this.stream[row] = stream;
    this.stack[row] = stack;
    return row;
  }

  #grow(): void {
    if (this.#room >= limits.events) refuseLimit('events', limits.events);
    const room = Math.min(limits.events, this.#room * 2);
    this.action = enlarged(this.action, new Uint8Array(room));
    this.address = enlarged(this.address, new Int32Array(room));
    this.bytes = enlarged(this.bytes, new Float64Array(room));
    this.timeUs = enlarged(this.timeUs, new Float64Array(room));
    this.stream = enlarged(this.stream, new Uint16Array(room));
    this.stack = enlarged(this.stack, new Int32Array(room));
    this.#room = room;
  }
}

function enlarged<Column extends Uint8Array | Uint16Array | Int32Array | Float64Array>(
  from: Column,
  to: Column,
): Column {
  to.set(from);
  return to;
}

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

/** The kinds of lists and dicts in the file. */
export const shape = {
  newDict: 0,
  newList: 1,
  event: 2,
  frame: 3,
  block: 4,
  segment: 5,
  annotation: 6,
  /** A list of frames, by its number in the stack table. */
  stack: 7,
  /** A list of frames that came in more than one piece. */
  longStack: 8,
  /** A list of events, blocks, segments or annotations. */
  rows: 9,
  plainList: 10,
  plainDict: 11,
} as const;

const rowBits = 27;
const rowMask = 2 ** rowBits - 1;

/** One number for each list and dict: its shape in the upper bits, its row below. */
export class ObjectTable {
  readonly #entries: Room<Int32Array>;
  #length = 0;

  constructor(expected: number) {
    this.#entries = new Room(Int32Array, expected);
  }

  add(shapeCode: number, row: number): number {
    const id = this.#length;
    if (id >= limits.objects) refuseLimit('lists and dicts', limits.objects);
    this.#length += 1;
    this.#entries.upTo(id)[id] = (shapeCode << rowBits) | row;
    return id;
  }

  shapeOf(id: number): number {
    return (this.#entries.column[id] ?? 0) >> rowBits;
  }

  rowOf(id: number): number {
    return (this.#entries.column[id] ?? 0) & rowMask;
  }

  become(id: number, shapeCode: number, row: number): void {
    this.#entries.column[id] = (shapeCode << rowBits) | row;
  }
}
