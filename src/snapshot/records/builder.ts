import {
  kind,
  kindOf,
  objectTag,
  pairTag,
  payloadMask,
  stringTag,
  type ValueStack,
} from '../pickle/values.js';
import { limits, refuseLimit, refuseSnapshot } from '../refusals.js';
import { Room, StackTable, TupleTable } from '../tables/stack-table.js';
import { keyCount, keyId, knownStrings } from './known-strings.js';
import { RecordFields } from './record-fields.js';
import {
  type AnnotationRow,
  BlockColumns,
  EventColumns,
  ObjectTable,
  type RecordTables,
  RowList,
  type SegmentRow,
  shape,
} from './tables.js';

const bit = (key: Parameters<typeof keyId>[0]) => 1 << keyId(key);
const isEvent = bit('action');
const actionKey = stringTag | keyId('action');
const isSegment = bit('total_size');
const isBlock = bit('state') | bit('address');
const isFrame = bit('filename');
const isAnnotation = bit('stage') | bit('name');

/**
 * Turns the lists and dicts of a pickle into rows while it is read, so that none of them ever is a
 * JavaScript object. What a dict is shows in its keys, which come all at once.
 */
export class SnapshotBuilder implements RecordTables {
  readonly strings = new StringTable(knownStrings);
  readonly frames = new TupleTable();
  readonly stacks = new StackTable();
  readonly addresses = new TupleTable();
  readonly streams = new TupleTable();
  readonly pairs = new TupleTable();
  readonly events: EventColumns;
  readonly blocks = new BlockColumns();
  readonly segments: SegmentRow[] = [];
  readonly annotations: AnnotationRow[] = [];
  readonly lists: RowList[] = [];
  readonly plain = new PlainStore();
  readonly objects: ObjectTable;
  readonly #longStacks: number[][] = [];
  readonly #fields = new RecordFields(this);
  #scratch = new Int32Array(256);

  /** `expectedBytes`: about how long the pickle will be. */
  constructor(expectedBytes: number) {
    // An event takes 90 to 130 bytes of the file, a list or dict at least 30.
    this.events = new EventColumns(Math.ceil(expectedBytes / 64));
    this.objects = new ObjectTable(Math.ceil(expectedBytes / 24));
    // Number 0 is the default stream.
    this.streams.idOf(0, 0);
  }

  newDict(): number {
    return this.objects.add(shape.newDict, 0);
  }

  newList(): number {
    return this.objects.add(shape.newList, 0);
  }

  /** A tuple from `stack[from..to)`, as a tag. */
  tuple(stack: ValueStack, from: number, to: number): number {
    const isPair =
      to - from === 2 && isSmallInteger(stack, from) && isSmallInteger(stack, from + 1);
    if (isPair) {
      return pairTag | this.pairs.idOf(stack.numbers[from] ?? 0, stack.numbers[from + 1] ?? 0);
    }
    const list = this.newList();
    this.append(list, stack, from, to);
    return objectTag | list;
  }

  /** Puts keys and values, in turn in `stack[from..to)`, into a dict. */
  setItems(dict: number, stack: ValueStack, from: number, to: number): void {
    const { objects } = this;
    const before = objects.shapeOf(dict);
    if (before === shape.plainDict) {
      this.plain.push(objects.rowOf(dict), stack, from, to);
      return;
    }
    if (before !== shape.newDict) refuseSnapshot('a record gets more keys after it was complete');
    // The keys of an event begin with its action, as PyTorch writes them.
    if (stack.tags[from] === actionKey) {
      objects.become(dict, shape.event, this.#fields.event(stack, from, to));
      return;
    }
    let keys = 0;
    for (let at = from; at < to; at += 2) {
      const tag = stack.tags[at] ?? 0;
      const id = tag & payloadMask;
      if (kindOf(tag) === kind.string && id < keyCount) keys |= 1 << id;
    }
    if (keys & isEvent) {
      objects.become(dict, shape.event, this.#fields.event(stack, from, to));
    } else if (keys & isFrame) {
      objects.become(dict, shape.frame, this.#fields.frame(stack, from, to));
    } else if (keys & isSegment) {
      objects.become(dict, shape.segment, this.#fields.segment(stack, from, to));
    } else if ((keys & isBlock) === isBlock) {
      objects.become(dict, shape.block, this.#fields.block(stack, from, to));
    } else if ((keys & isAnnotation) === isAnnotation) {
      objects.become(dict, shape.annotation, this.#fields.annotation(stack, from, to));
    } else {
      const row = this.plain.add();
      objects.become(dict, shape.plainDict, row);
      this.plain.push(row, stack, from, to);
    }
  }

  /** Adds `stack[from..to)` to a list. */
  append(list: number, stack: ValueStack, from: number, to: number): void {
    if (from >= to) return;
    const { objects } = this;
    const row = objects.rowOf(list);
    switch (objects.shapeOf(list)) {
      case shape.newList:
        this.#begin(list, stack, from, to);
        break;
      case shape.rows:
        this.#pushRows(this.lists[row], stack, from, to);
        break;
      case shape.plainList:
        this.plain.push(row, stack, from, to);
        break;
      case shape.stack:
        if (this.#longStacks.length >= limits.plainContainers) {
          refuseLimit('stacks of more than 1000 frames', limits.plainContainers);
        }
        this.#longStacks.push(this.#framesOf(row));
        objects.become(list, shape.longStack, this.#longStacks.length - 1);
        this.#pushFrames(this.#longStacks.length - 1, stack, from, to);
        break;
      case shape.longStack:
        this.#pushFrames(row, stack, from, to);
        break;
      default:
        refuseSnapshot('something that is not a list is used as one');
    }
  }

  /** The stack that a value of the key `frames` stands for; 0 when it is empty. */
  stackOf(tag: number): number {
    if (kindOf(tag) !== kind.object) return 0;
    const object = tag & payloadMask;
    const row = this.objects.rowOf(object);
    const what = this.objects.shapeOf(object);
    if (what === shape.stack) return row;
    if (what !== shape.longStack) return 0;
    const frames = Int32Array.from(this.#longStacks[row] ?? []);
    const stack = this.stacks.idOf(frames, 0, frames.length);
    this.objects.become(object, shape.stack, stack);
    this.#longStacks[row] = [];
    return stack;
  }

  /** The rows that a value stands for, when they are of this shape. */
  rowsOf(tag: number | undefined, shapeCode: number): RowList | undefined {
    if (tag === undefined || kindOf(tag) !== kind.object) return undefined;
    const object = tag & payloadMask;
    if (this.objects.shapeOf(object) !== shape.rows) return undefined;
    const list = this.lists[this.objects.rowOf(object)];
    return list?.shape === shapeCode ? list : undefined;
  }

  /** The first items decide what a list is. */
  #begin(list: number, stack: ValueStack, from: number, to: number): void {
    const what = this.#shapeAt(stack, from);
    const frames = what === shape.frame ? this.#internFrames(stack, from, to) : undefined;
    if (frames !== undefined) {
      this.objects.become(list, shape.stack, frames);
      return;
    }
    if (
      what === shape.event ||
      what === shape.block ||
      what === shape.segment ||
      what === shape.annotation
    ) {
      if (this.lists.length >= limits.segments) refuseLimit('lists of records', limits.segments);
      this.lists.push(new RowList(what));
      this.objects.become(list, shape.rows, this.lists.length - 1);
      this.#pushRows(this.lists.at(-1), stack, from, to);
      return;
    }
    const row = this.plain.add();
    this.objects.become(list, shape.plainList, row);
    this.plain.push(row, stack, from, to);
  }

  #shapeAt(stack: ValueStack, at: number): number {
    const tag = stack.tags[at] ?? 0;
    return kindOf(tag) === kind.object ? this.objects.shapeOf(tag & payloadMask) : -1;
  }

  #internFrames(stack: ValueStack, from: number, to: number): number | undefined {
    const length = to - from;
    if (length > limits.framesInStack) refuseLimit('frames in one stack', limits.framesInStack);
    if (length > this.#scratch.length) this.#scratch = new Int32Array(limits.framesInStack);
    const { objects } = this;
    const scratch = this.#scratch;
    for (let at = 0; at < length; at += 1) {
      const tag = stack.tags[from + at] ?? 0;
      const object = tag & payloadMask;
      if (kindOf(tag) !== kind.object || objects.shapeOf(object) !== shape.frame) return undefined;
      scratch[at] = objects.rowOf(object);
    }
    return this.stacks.idOf(scratch, 0, length);
  }

  #framesOf(stack: number): number[] {
    const { frames } = this.stacks;
    return [...frames.subarray(this.stacks.startOf(stack), this.stacks.endOf(stack))];
  }

  #pushFrames(row: number, stack: ValueStack, from: number, to: number): void {
    const frames = this.#longStacks[row] ?? [];
    for (let at = from; at < to; at += 1) {
      if (this.#shapeAt(stack, at) !== shape.frame)
        refuseSnapshot('a stack holds more than frames');
      if (frames.length >= limits.framesInStack) {
        refuseLimit('frames in one stack', limits.framesInStack);
      }
      frames.push(this.objects.rowOf((stack.tags[at] ?? 0) & payloadMask));
    }
  }

  #pushRows(list: RowList | undefined, stack: ValueStack, from: number, to: number): void {
    if (list === undefined) return;
    const { objects } = this;
    for (let at = from; at < to; at += 1) {
      const tag = stack.tags[at] ?? 0;
      const object = tag & payloadMask;
      if (kindOf(tag) !== kind.object || objects.shapeOf(object) !== list.shape) {
        refuseSnapshot('a list mixes records of different kinds');
      }
      list.push(objects.rowOf(object));
    }
  }
}

function isSmallInteger(stack: ValueStack, at: number): boolean {
  const number = stack.numbers[at] ?? -1;
  return kindOf(stack.tags[at] ?? 0) === kind.integer && number >= 0 && number < 2 ** 32;
}

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** Strings of the file, each different one once, found by their bytes and decoded when asked for. */
class StringTable {
  readonly #bytes = new Room(Uint8Array, 4096);
  readonly #start = new Room(Uint32Array, 256);
  #slots = new Int32Array(256).fill(-1);
  #length = 0;
  #filled = 0;

  constructor(known: readonly string[]) {
    const encoder = new TextEncoder();
    for (const text of known) {
      const bytes = encoder.encode(text);
      this.idOf(bytes, 0, bytes.length);
    }
  }

  get length(): number {
    return this.#length;
  }

  /** The number of the string in `from[start..end)`. */
  idOf(from: Uint8Array, start: number, end: number): number {
    let hash = end - start;
    for (let at = start; at < end; at += 1) hash = Math.imul(hash ^ (from[at] ?? 0), 0x01000193);
    hash ^= hash >>> 15;
    const mask = this.#slots.length - 1;
    let slot = hash & mask;
    let id = this.#slots[slot] ?? -1;
    while (id !== -1) {
      if (this.#isEqual(id, from, start, end)) return id;
      slot = (slot + 1) & mask;
      id = this.#slots[slot] ?? -1;
    }
    return this.#add(slot, from, start, end);
  }

  text(id: number): string {
    if (id < 0 || id >= this.#length) return '';
    const start = this.#start.column[id] ?? 0;
    return decoder.decode(this.#bytes.column.subarray(start, this.#end(id)));
  }

  #end(id: number): number {
    return id + 1 < this.#length ? (this.#start.column[id + 1] ?? 0) : this.#filled;
  }

  #isEqual(id: number, from: Uint8Array, start: number, end: number): boolean {
    const own = this.#start.column[id] ?? 0;
    if (this.#end(id) - own !== end - start) return false;
    const bytes = this.#bytes.column;
    for (let at = start; at < end; at += 1) {
      if (bytes[own + at - start] !== from[at]) return false;
    }
    return true;
  }

  #add(slot: number, from: Uint8Array, start: number, end: number): number {
    const size = end - start;
    if (this.#length >= limits.strings) refuseLimit('different strings', limits.strings);
    if (this.#filled + size > limits.allStringBytes) {
      refuseLimit('bytes of different strings', limits.allStringBytes);
    }
    const id = this.#length;
    this.#length += 1;
    this.#start.upTo(id)[id] = this.#filled;
    this.#bytes.upTo(this.#filled + size).set(from.subarray(start, end), this.#filled);
    this.#filled += size;
    this.#slots[slot] = id;
    if (this.#length * 2 > this.#slots.length) this.#rehash();
    return id;
  }

  #rehash(): void {
    const slots = new Int32Array(this.#slots.length * 2).fill(-1);
    const mask = slots.length - 1;
    const bytes = this.#bytes.column;
    for (let id = 0; id < this.#length; id += 1) {
      const start = this.#start.column[id] ?? 0;
      const end = this.#end(id);
      let hash = end - start;
      for (let at = start; at < end; at += 1) hash = Math.imul(hash ^ (bytes[at] ?? 0), 0x01000193);
      hash ^= hash >>> 15;
      let slot = hash & mask;
      while (slots[slot] !== -1) slot = (slot + 1) & mask;
      slots[slot] = id;
    }
    this.#slots = slots;
  }
}

/** Items of a list, or keys and values of a dict in turn, as tags with their numbers. */
interface PlainContainer {
  readonly tags: number[];
  readonly numbers: number[];
}

/** Lists and dicts that are none of the records: the settings, the outermost dict, additions. */
class PlainStore {
  readonly containers: PlainContainer[] = [];
  #items = 0;

  add(): number {
    if (this.containers.length >= limits.plainContainers) {
      refuseLimit('lists and dicts of no known meaning', limits.plainContainers);
    }
    this.containers.push({ tags: [], numbers: [] });
    return this.containers.length - 1;
  }

  push(row: number, stack: ValueStack, from: number, to: number): void {
    this.#items += to - from;
    if (this.#items > limits.plainItems) {
      refuseLimit('values of no known meaning', limits.plainItems);
    }
    const container = this.at(row);
    for (let at = from; at < to; at += 1) {
      container.tags.push(stack.tags[at] ?? 0);
      container.numbers.push(stack.numbers[at] ?? 0);
    }
  }

  at(row: number): PlainContainer {
    return this.containers[row] ?? { tags: [], numbers: [] };
  }

  /** The tag of the value under a key (given by its string's number), or undefined. */
  find(row: number, key: number): number | undefined {
    const { tags } = this.at(row);
    // The last one counts, as in Python.
    for (let at = tags.length - 2; at >= 0; at -= 2) {
      const tag = tags[at] ?? 0;
      if (kindOf(tag) === kind.string && (tag & payloadMask) === key) return tags[at + 1];
    }
    return undefined;
  }
}
