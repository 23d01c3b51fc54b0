import { type EventStream, eventKind } from './event-stream.js';
import { randomNumbers } from './unsure-kernels.js';

/** Orders that are tried. Each is replayed, which takes up to a second. */
const orders = 10;
/** A single batch cannot change places. */
const leastParts = 2;
/** Loaders that fetch a batch ahead, as those of accelerate, leave it to the next part but one. */
const furthest = 2;
/** A loss, outputs and the like, which some batches leave and others do not. */
const fewBlocks = 8;
/**
 * Of the most that is live in a pass: what a batch may hold on to for longer and still change places, such as losses
 * for a report, or its own tensors after the last one.
 */
const fewShare = 1 / 32;
/** No event. */
const none = -1;
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

/** One time through a loader: parts that may change places, and those that stay at its end. */
interface Pass {
  readonly parts: readonly Part[];
  readonly fixed: readonly Part[];
  /** Frees of what is held longer than `furthest`, by event: such slots are freed after the last batch. */
  readonly late: ReadonlyMap<number, number>;
  readonly once?: Once | undefined;
}

/** What the first step asks for and later ones use again, such as the state of an optimizer: it stays in the first. */
interface Once {
  readonly part: Part;
  /** The events that ask for it. */
  readonly events: ReadonlySet<number>;
  /** How many events of its part follow the last of them; as many do in other parts, since steps end alike. */
  readonly after: number;
}

/**
 * The same job with its batches in other orders, where a trace has marked them: what an allocator holds
 * depends on which sizes come first. What follows the last batch of a pass stays where it is. Gives nothing where
 * batches cannot change places, or all ask for the same. The same trace always gets the same orders.
 *
 * @example
 * Array.from(shuffledStreams(trace.stream), (one) => replay(one).peakReservedBytes);
 */
export function* shuffledStreams(stream: EventStream): Generator<EventStream> {
  // What waits for other streams depends on how many were freed before.
  if (stream.kind.includes(eventKind.use) || stream.kind.includes(eventKind.wait)) return;
  const passes = passesOf(stream).flatMap((starts, at, all) => {
    const pass = passOf(stream, starts, all[at + 1]?.[0] ?? stream.length);
    return pass === undefined ? [] : [pass];
  });
  if (!passes.some(({ parts }) => differ(stream, parts))) return;
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

/** The parts of a pass, of as few batches as can be; `end` is where the next pass begins. */
function passOf(stream: EventStream, starts: readonly number[], end: number): Pass | undefined {
  const { allocatedIn, freedAt } = lives(stream, starts);
  const begins = [starts[0] ?? 0, ...beginsOf(starts, allocatedIn, freedAt, end)];
  const parts = begins.map((from, at) => ({
    from,
    to: begins[at + 1] ?? end,
    left: Array.from({ length: furthest }, (): number[] => []),
    takes: Array.from({ length: furthest }, (): number[] => []),
  }));
  const { sizes, few } = sizesIn(stream, parts[0]?.from ?? end, end);
  const late = new Map<number, number>();
  const held = parts.map(() => 0);
  const outlive = parts.map((): number[] => []);
  let lateBytes = 0;
  const slots = Array.from(allocatedIn.keys(), (slot) => ({ slot, freed: freedAt[slot] ?? end }));
  for (const { slot, freed } of slots.toSorted((a, b) => a.freed - b.freed)) {
    const batch = allocatedIn[slot] ?? -1;
    if (batch < 0) continue;
    const size = sizes[slot] ?? 0;
    const from = batchOf(begins, starts[batch] ?? 0);
    if (freed >= end) {
      held[from] = (held[from] ?? 0) + size;
      outlive[from]?.push(slot);
      continue;
    }
    const to = batchOf(begins, freed);
    if (to === from) continue;
    // What is kept until the end does not depend on what follows.
    if (to - from > furthest && to === parts.length - 1) continue;
    if (to - from > furthest) {
      late.set(freed, slot);
      lateBytes += size;
    } else {
      parts[from]?.left[to - from - 1]?.push(slot);
      parts[to]?.takes[to - from - 1]?.push(freed);
    }
  }
  // The last batches keep what others leave to the next: in another place they would keep it as well.
  const keeps = held
    .slice(1, -1)
    .findIndex((bytes, at) => bytes > few && at + 3 + furthest > held.length);
  const moves = keeps < 0 ? parts.length - 1 : keeps + 1;
  if (moves < leastParts || lateBytes > few) return undefined;
  const moving = parts.slice(0, moves);
  return {
    parts: moving,
    fixed: parts.slice(moves),
    late,
    once: onceOf(stream, moving, outlive, held),
  };
}

/** Of one of the first parts, where those that follow hold on to much less: they find it there. */
function onceOf(
  { kind, slot }: EventStream,
  parts: readonly Part[],
  outlive: readonly (readonly number[])[],
  held: readonly number[],
): Once | undefined {
  const which = (held[0] ?? 0) > (held[1] ?? 0) ? 0 : 1;
  const part = parts[which];
  const others = parts.map((_, at) => (at === which ? 0 : (held[at] ?? 0)));
  if (part === undefined || (held[which] ?? 0) <= 2 * Math.max(...others)) return undefined;
  const slots = new Set(outlive[which]);
  const events = new Set<number>();
  let last = part.from;
  for (let at = part.from; at < part.to; at += 1) {
    if (kind[at] !== eventKind.alloc || !slots.has(slot[at] ?? 0)) continue;
    events.add(at);
    last = at;
  }
  return { part, events, after: part.to - last - 1 };
}

/** By slot: its bytes, of those that are asked for here; and what few are of the most that is live of them. */
function sizesIn({ kind, slot, bytes, slots }: EventStream, begin: number, end: number) {
  const sizes = new Float64Array(slots);
  let live = 0;
  let most = 0;
  for (let at = begin; at < end; at += 1) {
    const one = slot[at] ?? 0;
    if (kind[at] === eventKind.alloc) {
      sizes[one] = bytes[at] ?? 0;
      live += bytes[at] ?? 0;
      most = Math.max(most, live);
    } else if (kind[at] === eventKind.free) live -= sizes[one] ?? 0;
  }
  return { sizes, few: most * fewShare };
}

/** Whether parts ask for more or less than others. */
function differ({ kind, bytes }: EventStream, parts: readonly Part[]): boolean {
  const asked = parts.map(({ from, to }) => {
    let sum = 0;
    for (let at = from; at < to; at += 1) if (kind[at] === eventKind.alloc) sum += bytes[at] ?? 0;
    return sum;
  });
  return new Set(asked).size > 1;
}

/** Where other batches may follow: no more is left than usual. In between, gradients of several are added up. */
function beginsOf(
  starts: readonly number[],
  allocatedIn: Int32Array,
  freedAt: readonly (number | undefined)[],
  end: number,
): number[] {
  const change = new Int32Array(starts.length + 1);
  for (const [slot, batch] of allocatedIn.entries()) {
    const freed = freedAt[slot];
    // What outlives the pass, such as the state of an optimizer, is held at each later place alike.
    if (batch < 0 || freed === undefined || freed >= end) continue;
    change[batch + 1] = (change[batch + 1] ?? 0) + 1;
    const until = batchOf(starts, freed) + 1;
    change[until] = (change[until] ?? 0) - 1;
  }
  let sum = 0;
  const left = Array.from(change, (more) => (sum += more)).slice(0, starts.length);
  // At the last place, where no batch follows, all that is left outlives the pass.
  const usual = 2 * Math.min(...left.slice(1, -1)) + fewBlocks;
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
  passes: readonly Pass[],
  random: () => number,
): EventStream {
  /** Of each event of the new order: the one that it was; below 0 the free of what another part left, by its slot. */
  const from: number[] = [];
  let done = 0;
  const copy = (begin: number, end: number) => {
    for (let at = begin; at < end; at += 1) from.push(at);
  };
  const free = (slot: number) => {
    from.push(-1 - slot);
  };
  for (const { parts, fixed, late, once } of passes) {
    /** The events of a part; it frees what those before it now have left. */
    const append = (part: Part, to: number, leftBy: (distance: number) => readonly number[]) => {
      const frees = new Map<number, readonly number[]>();
      for (const [which, events] of part.takes.entries()) {
        const slots = leftBy(which + 1);
        if (events.length === 0) slots.forEach(free);
        for (const [at, event] of events.entries()) {
          frees.set(event, slots.slice(at, at === events.length - 1 ? slots.length : at + 1));
        }
      }
      const asksAt = part === first ? part.to - 1 - (moved?.after ?? 0) : none;
      for (let at = part.from; at < to; at += 1) {
        if (moved?.events.has(at)) continue;
        const slots = frees.get(at);
        if (slots !== undefined) slots.forEach(free);
        else if (!late.has(at)) from.push(at);
        if (at === asksAt) from.push(...(moved?.events ?? []));
      }
    };
    copy(done, parts[0]?.from ?? done);
    const order = [...shuffled(parts, random), ...fixed];
    const last = order.at(-1);
    // A loader that fetches a batch ahead has a first part without a step.
    const first = once && order.find((part) => part !== last && part.to - part.from > once.after);
    const moved = first === undefined || first === once?.part ? undefined : once;
    for (const [at, part] of order.entries()) {
      if (part === last) {
        // What nothing is left for that would free it.
        const [, ...beyond] = order[at - 1]?.left ?? [];
        [...late.values(), ...beyond.flat()].forEach(free);
      }
      done = part === last ? Math.max(part.from, ...part.takes.flat().map((e) => e + 1)) : part.to;
      append(part, done, (distance) => order[at - distance]?.left[distance - 1] ?? []);
    }
  }
  copy(done, stream.length);
  return {
    ...stream,
    ...eventsIn(stream, from),
    // Parts are as long as those that they take the place of, or nearly.
    marks: stream.marks.map(({ at, name }) => ({ at: Math.min(at, from.length), name })),
  };
}

/** In plain loops: there are hundreds of thousands of events, and ten orders of them. */
function eventsIn(
  stream: EventStream,
  from: readonly number[],
): Pick<EventStream, 'length' | 'kind' | 'slot' | 'bytes'> {
  const { length } = from;
  const kind = new Uint8Array(length);
  const slot = new Int32Array(length);
  const bytes = new Float64Array(length);
  for (let now = 0; now < length; now += 1) {
    const at = from[now] ?? 0;
    if (at < 0) {
      kind[now] = eventKind.free;
      slot[now] = -1 - at;
    } else {
      kind[now] = stream.kind[at] ?? 0;
      slot[now] = stream.slot[at] ?? 0;
      bytes[now] = stream.bytes[at] ?? 0;
    }
  }
  return { length, kind, slot, bytes };
}

function shuffled<T>(values: readonly T[], random: () => number): T[] {
  return values
    .map((value) => ({ value, by: random() }))
    .toSorted((a, b) => a.by - b.by)
    .map(({ value }) => value);
}
