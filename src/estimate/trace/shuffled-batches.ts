import { type EventStream, eventKind } from './event-stream.js';
import { randomNumbers } from './unsure-kernels.js';

/** Orders that are tried. Each is replayed, which takes up to a second. */
const orders = 10;
/** With fewer there is no other order to speak of. */
const leastParts = 3;
/** The last part frees what the one before it left, which stays where it is. */
const fixedAtTheEnd = 2;
/** Loaders that fetch a batch ahead, as those of accelerate, leave it to the next part but one. */
const furthest = 2;
/** A loss, outputs and the like, which some batches leave and others do not. */
const fewBlocks = 8;
const batchMark = /^batch:(\d+)$/;

/** Consecutive events that may change places with others of the same pass through a loader. */
interface Part {
  readonly from: number;
  readonly to: number;
  /** Slots that it leaves to the next part, and to the one after that, in the order in which they are freed. */
  readonly left: readonly number[][];
  /** Its own frees of what the part before it left, and the one before that. */
  readonly takes: readonly number[][];
}

/**
 * The same job with its batches in other orders, where a trace has marked them: what an allocator holds
 * depends on which sizes come first. The first batch and the last two of each pass stay where they are. Gives
 * nothing where batches cannot change places. The same trace always gets the same orders.
 *
 * @example
 * Array.from(shuffledStreams(trace.stream), (one) => replay(one).peakReservedBytes);
 */
export function* shuffledStreams(stream: EventStream): Generator<EventStream> {
  // What waits for other streams depends on how many were freed before.
  if (stream.kind.includes(eventKind.use) || stream.kind.includes(eventKind.wait)) return;
  const passes = passesOf(stream).flatMap((starts, at, all) => {
    const parts = partsOf(stream, starts, all[at + 1]?.[0] ?? stream.length);
    return parts === undefined ? [] : [parts];
  });
  if (passes.length === 0) return;
  const random = randomNumbers(passes.length);
  for (let order = 0; order < orders; order += 1) yield inAnotherOrder(stream, passes, random);
}

/** Of each pass through a loader that is not inside of another: the events at which its batches begin. */
function passesOf({ marks }: EventStream): number[][] {
  const starts = new Map<string, number[]>();
  for (const { at, name } of marks) {
    const pass = batchMark.exec(name)?.[1];
    if (pass !== undefined) starts.set(pass, [...(starts.get(pass) ?? []), at]);
  }
  let end = 0;
  return [...starts.values()].filter((one) => {
    if ((one[0] ?? 0) < end) return false;
    end = one.at(-1) ?? end;
    return true;
  });
}

/** The first batches of a pass and its parts of as few batches as can be; `end` is where the next pass begins. */
function partsOf(
  stream: EventStream,
  starts: readonly number[],
  end: number,
): readonly Part[] | undefined {
  const { allocatedIn, freedAt } = lives(stream, starts);
  const begins = [starts[0] ?? 0, ...beginsOf(starts, allocatedIn, freedAt)];
  if (begins.length - 1 - fixedAtTheEnd < leastParts) return undefined;
  const parts = begins.map((from, at) => ({
    from,
    to: begins[at + 1] ?? end,
    left: Array.from({ length: furthest }, (): number[] => []),
    takes: Array.from({ length: furthest }, (): number[] => []),
  }));
  const slots = Array.from(allocatedIn.keys(), (slot) => ({ slot, freed: freedAt[slot] ?? end }));
  for (const { slot, freed } of slots.toSorted((a, b) => a.freed - b.freed)) {
    const batch = allocatedIn[slot] ?? -1;
    if (batch < 0 || freed >= end) continue;
    const from = batchOf(begins, starts[batch] ?? 0);
    const to = batchOf(begins, freed);
    if (to === from) continue;
    // What is kept until the end does not depend on what follows.
    if (to - from > furthest && to === begins.length - 1) continue;
    if (to - from > furthest) return undefined;
    parts[from]?.left[to - from - 1]?.push(slot);
    parts[to]?.takes[to - from - 1]?.push(freed);
  }
  return parts;
}

/** Where other batches may follow: no more is left than usual. In between, gradients of several are added up. */
function beginsOf(
  starts: readonly number[],
  allocatedIn: Int32Array,
  freedAt: readonly (number | undefined)[],
): number[] {
  const change = new Int32Array(starts.length + 1);
  for (const [slot, batch] of allocatedIn.entries()) {
    const freed = freedAt[slot];
    if (batch < 0 || freed === undefined) continue;
    change[batch + 1] = (change[batch + 1] ?? 0) + 1;
    const until = batchOf(starts, freed) + 1;
    change[until] = (change[until] ?? 0) - 1;
  }
  let sum = 0;
  const left = Array.from(change, (more) => (sum += more)).slice(0, starts.length);
  const usual = 2 * Math.min(...left.slice(1)) + fewBlocks;
  return starts.filter((_, batch) => batch > 0 && (left[batch] ?? 0) <= usual);
}

/** By slot: the batch that asks for it, -1 where none does, and the event that frees it. */
function lives({ kind, slot, length, slots }: EventStream, starts: readonly number[]) {
  const allocatedIn = new Int32Array(slots).fill(-1);
  const freedAt: (number | undefined)[] = [];
  for (let at = starts[0] ?? 0; at < length; at += 1) {
    const one = slot[at] ?? 0;
    if (kind[at] === eventKind.free) freedAt[one] = at;
    else if (kind[at] === eventKind.alloc) allocatedIn[one] = batchOf(starts, at);
  }
  return { allocatedIn, freedAt };
}

function batchOf(starts: readonly number[], at: number): number {
  let low = 0;
  let high = starts.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((starts[middle] ?? 0) <= at) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function inAnotherOrder(
  stream: EventStream,
  passes: readonly (readonly Part[])[],
  random: () => number,
): EventStream {
  const from: number[] = [];
  /** By event of the new order that frees what another part left: the slot. */
  const other = new Map<number, number>();
  let done = 0;
  const copy = (begin: number, end: number) => {
    for (let at = begin; at < end; at += 1) from.push(at);
  };
  const free = (slot: number) => {
    other.set(from.length, slot);
    from.push(-1);
  };
  /** The events of a part; it frees what those before it now have left. */
  const append = ({ takes, ...part }: Part, to: number, leftBy: (distance: number) => number[]) => {
    const frees = new Map<number, readonly number[]>();
    for (const [which, events] of takes.entries()) {
      const slots = leftBy(which + 1);
      if (events.length === 0) slots.forEach(free);
      for (const [at, event] of events.entries()) {
        frees.set(event, slots.slice(at, at === events.length - 1 ? slots.length : at + 1));
      }
    }
    for (let at = part.from; at < to; at += 1) {
      const slots = frees.get(at);
      if (slots === undefined) from.push(at);
      else slots.forEach(free);
    }
  };
  for (const parts of passes) {
    const [first, ...rest] = parts;
    if (first === undefined) continue;
    copy(done, first.to);
    const fixed = rest.splice(-fixedAtTheEnd);
    const order = [first, ...shuffled(rest, random), ...fixed];
    for (const [at, part] of order.entries()) {
      if (at === 0) continue;
      done =
        part === parts.at(-1)
          ? Math.max(part.from, ...part.takes.flat().map((e) => e + 1))
          : part.to;
      append(part, done, (distance) => order[at - distance]?.left[distance - 1] ?? []);
    }
  }
  copy(done, stream.length);
  return {
    ...stream,
    length: from.length,
    kind: Uint8Array.from(from, (at) => (at < 0 ? eventKind.free : (stream.kind[at] ?? 0))),
    slot: Int32Array.from(from, (at, now) => other.get(now) ?? stream.slot[at] ?? 0),
    bytes: Float64Array.from(from, (at) => (at < 0 ? 0 : (stream.bytes[at] ?? 0))),
    marks: [],
  };
}

function shuffled<T>(values: readonly T[], random: () => number): T[] {
  return values
    .map((value) => ({ value, by: random() }))
    .toSorted((a, b) => a.by - b.by)
    .map(({ value }) => value);
}
