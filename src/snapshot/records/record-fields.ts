import { kind, kindOf, payloadMask, trueTag, type ValueStack } from '../pickle/values.js';
import { limits, refuseLimit, refuseSnapshot } from '../refusals.js';
import { action, actionOf, blockState, keyId, stateOf } from './known-strings.js';
import { type RecordTables, shape } from './tables.js';

const key = {
  size: keyId('size'),
  stream: keyId('stream'),
  timeUs: keyId('time_us'),
  frames: keyId('frames'),
  name: keyId('name'),
  filename: keyId('filename'),
  line: keyId('line'),
  device: keyId('device'),
  address: keyId('address'),
  totalSize: keyId('total_size'),
  allocatedSize: keyId('allocated_size'),
  activeSize: keyId('active_size'),
  requestedSize: keyId('requested_size'),
  segmentType: keyId('segment_type'),
  segmentPoolId: keyId('segment_pool_id'),
  isExpandable: keyId('is_expandable'),
  blocks: keyId('blocks'),
  state: keyId('state'),
  stage: keyId('stage'),
} as const;

/** Reads the fields of one record out of its keys and values, and adds it as a row. */
export class RecordFields {
  readonly #tables: RecordTables;

  constructor(tables: RecordTables) {
    this.#tables = tables;
  }

  event(stack: ValueStack, from: number, to: number): number {
    let code: number = action.other;
    let address = -1;
    let size = 0;
    let time = 0;
    let stream = 0;
    let frames = 0;
    let free = -1;
    for (let at = from; at < to; at += 2) {
      const value = at + 1;
      // Numbers of keys, for the same reason as those of opcodes; a test holds them to the list.
      switch (stringAt(stack, at)) {
        case 0: // action
          code = actionOf(stringAt(stack, value));
          break;
        case 1: // addr
          address = this.#address(stack, value);
          break;
        case 2: // size
          size = bytesAt(stack, value, 'size');
          break;
        case 3: // stream
          stream = this.#stream(stack, value);
          break;
        case 4: // time_us
          time = numberAt(stack, value);
          break;
        case 5: // frames
          frames = this.#tables.stackOf(stack.tags[value] ?? 0);
          break;
        case 6: // device_free
          free = bytesAt(stack, value, 'device_free');
          break;
        default:
      }
    }
    const row = this.#tables.events.add(code, address, size, time, stream, frames);
    if (free >= 0) this.#tables.events.deviceFree.set(row, free);
    return row;
  }

  frame(stack: ValueStack, from: number, to: number): number {
    let name = 0;
    let file = 0;
    let line = 0;
    for (let at = from; at < to; at += 2) {
      const field = stringAt(stack, at);
      if (field === key.name) name = stringAt(stack, at + 1);
      else if (field === key.filename) file = stringAt(stack, at + 1);
      else if (field === key.line) line = numberAt(stack, at + 1);
    }
    return this.#tables.frames.idOf(name >>> 0, file >>> 0, line >>> 0);
  }

  block(stack: ValueStack, from: number, to: number): number {
    let address = -1;
    let size = 0;
    let requested = 0;
    let state: number = blockState.inactive;
    let frames = 0;
    for (let at = from; at < to; at += 2) {
      const value = at + 1;
      const field = stringAt(stack, at);
      if (field === key.address) address = this.#address(stack, value);
      else if (field === key.size) size = bytesAt(stack, value, 'size');
      else if (field === key.requestedSize) requested = bytesAt(stack, value, 'requested_size');
      else if (field === key.frames) frames = this.#tables.stackOf(stack.tags[value] ?? 0);
      else if (field === key.state) {
        state = stateOf(stringAt(stack, value)) ?? refuseSnapshot('a block has no known state');
      }
    }
    return this.#tables.blocks.add(address, size, requested, state, frames);
  }

  segment(stack: ValueStack, from: number, to: number): number {
    const { segments } = this.#tables;
    if (segments.length >= limits.segments) refuseLimit('segments', limits.segments);
    const place = new Map<number, number>();
    for (let at = from; at < to; at += 2) place.set(stringAt(stack, at), at + 1);
    const tagOf = (field: number) => stack.tags[place.get(field) ?? -1] ?? 0;
    const bytesOf = (field: number, name: string) => {
      const at = place.get(field);
      return at === undefined ? 0 : bytesAt(stack, at, name);
    };
    const address = place.get(key.address);
    const stream = place.get(key.stream);
    const pool = tagOf(key.segmentPoolId);
    segments.push({
      device: bytesOf(key.device, 'device'),
      address: address === undefined ? -1 : this.#address(stack, address),
      totalBytes: bytesOf(key.totalSize, 'total_size'),
      allocatedBytes: bytesOf(key.allocatedSize, 'allocated_size'),
      activeBytes: bytesOf(key.activeSize, 'active_size'),
      requestedBytes: bytesOf(key.requestedSize, 'requested_size'),
      stream: stream === undefined ? 0 : this.#stream(stack, stream),
      type: stringAt(stack, place.get(key.segmentType) ?? -1),
      pool: kindOf(pool) === kind.pair ? pool & payloadMask : -1,
      expandable: tagOf(key.isExpandable) === trueTag,
      stack: this.#tables.stackOf(tagOf(key.frames)),
      blocks: this.#tables.rowsOf(tagOf(key.blocks), shape.block),
    });
    return segments.length - 1;
  }

  annotation(stack: ValueStack, from: number, to: number): number {
    const { annotations } = this.#tables;
    if (annotations.length >= limits.segments) refuseLimit('annotations', limits.segments);
    let name = -1;
    let stage = -1;
    let device = 0;
    let timeUs = 0;
    for (let at = from; at < to; at += 2) {
      const field = stringAt(stack, at);
      if (field === key.name) name = stringAt(stack, at + 1);
      else if (field === key.stage) stage = stringAt(stack, at + 1);
      else if (field === key.device) device = numberAt(stack, at + 1);
      else if (field === key.timeUs) timeUs = numberAt(stack, at + 1);
    }
    annotations.push({ name, stage, device, timeUs });
    return annotations.length - 1;
  }

  /** All 64 bits of an address are kept: as two halves, whole ones only once. */
  #address(stack: ValueStack, at: number): number {
    const what = kindOf(stack.tags[at] ?? 0);
    const number = stack.numbers[at] ?? 0;
    const { addresses } = this.#tables;
    if (what === kind.wide) return addresses.idOf(stack.high[at] ?? 0, stack.low[at] ?? 0);
    if (what !== kind.integer || number < 0) refuseSnapshot('an address is not valid');
    return addresses.idOf(Math.floor(number / 2 ** 32), number >>> 0);
  }

  #stream(stack: ValueStack, at: number): number {
    const what = kindOf(stack.tags[at] ?? 0);
    const number = numberAt(stack, at);
    const { streams } = this.#tables;
    if (what === kind.integer && number === 0) return 0;
    const id =
      what === kind.wide
        ? streams.idOf(stack.high[at] ?? 0, stack.low[at] ?? 0)
        : streams.idOf(Math.floor(number / 2 ** 32) >>> 0, number >>> 0);
    if (id >= limits.streams) refuseLimit('streams', limits.streams);
    return id;
  }
}

/** The number of the string at this place of the stack; -1 when there is no string. */
function stringAt(stack: ValueStack, at: number): number {
  const tag = stack.tags[at] ?? 0;
  return kindOf(tag) === kind.string ? tag & payloadMask : -1;
}

function numberAt(stack: ValueStack, at: number): number {
  const what = kindOf(stack.tags[at] ?? 0);
  return what === kind.integer || what === kind.float ? (stack.numbers[at] ?? 0) : 0;
}

function bytesAt(stack: ValueStack, at: number, field: string): number {
  const number = stack.numbers[at] ?? -1;
  if (kindOf(stack.tags[at] ?? 0) !== kind.integer || number < 0) {
    refuseSnapshot(`a record's ${field} is not a whole number of bytes`);
  }
  return number;
}
