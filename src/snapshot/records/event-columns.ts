import { limits } from '../limits.js';
import { refuseLimit } from '../refusals.js';

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
