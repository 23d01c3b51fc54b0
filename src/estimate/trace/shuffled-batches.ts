import { type EventStream, eventKind } from './event-stream.js';
import { type Lives, livesOf } from './steps/repeated-steps.js';
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
const batchMark = /^batch:(\d+)$/;

/** Consecutive events that may change places with others of the same pass through a loader. */
interface Part {
  readonly from: number;
  readonly to: number;
  /** Slots that it leaves to the next part, and to the one after that, in the order in which they are freed. */
  readonly left: readonly number[][];
  /** Its own frees of what the part before it left, and the one before that. */
  readonly takes: readonly number[][];
  /** Those, and its frees of what is held longer, in their order: all else is the same in any order. */
  readonly changed: number[];
}

/** One time through a loader: parts that may change places, and those that stay at its end. */
interface Pass {
  readonly parts: readonly Part[];
  readonly fixed: readonly Part[];
  /** Slots that are held longer than `furthest`: they are freed after the last batch. */
  readonly late: readonly number[];
  readonly once?: Once | undefined;
}

/** Requests of the first step that later steps use again, such as the optimizer's state; they stay in the first step. */
interface Once {
  readonly part: Part;
  /** The events that ask for it, in their order. */
  readonly events: readonly number[];
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
  const lives = livesOf(stream);
  const passes = passesOf(stream).flatMap((starts, at, all) => {
    const pass = passOf(stream, lives, starts, all[at + 1]?.[0] ?? stream.length);
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
function passOf(
  stream: EventStream,
  lives: Lives,
  starts: readonly number[],
  end: number,
): Pass | undefined {
  const begin = starts[0] ?? 0;
  const begins = [begin, ...beginsOf(stream, lives, starts, end)];
  const parts = begins.map((from, at) => ({
    from,
    to: begins[at + 1] ?? end,
    left: Array.from({ length: furthest }, (): number[] => []),
    takes: Array.from({ length: furthest }, (): number[] => []),
    changed: Array.of<number>(),
  }));
  const { bytesAt, few } = askedIn(stream, lives, begin, end);
  const late: number[] = [];
  const held = parts.map(() => 0);
  const outlive = parts.map((): number[] => []);
  let lateBytes = 0;
  for (let at = begin; at < end; at += 1) {
    const slot = stream.slot[at] ?? 0;
    const allocated = lives.allocatedAt[slot] ?? 0;
    if (allocated < begin) continue;
    const from = batchOf(begins, allocated);
    if (stream.kind[at] === eventKind.alloc && (lives.freedAt[slot] ?? end) >= end) {
      held[from] = (held[from] ?? 0) + bytesAt(at);
      outlive[from]?.push(at);
    } else if (stream.kind[at] === eventKind.free) {
      const to = batchOf(begins, at);
      if (to === from) continue;
      // What is kept until the end does not depend on what follows.
      if (to - from > furthest && to === parts.length - 1) continue;
      if (to - from > furthest) {
        late.push(slot);
        lateBytes += bytesAt(allocated);
      } else {
        parts[from]?.left[to - from - 1]?.push(slot);
        parts[to]?.takes[to - from - 1]?.push(at);
      }
      parts[to]?.changed.push(at);
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
    once: onceOf(moving, outlive, held),
  };
}

/** Of one of the first parts, where those that follow hold on to much less: they find it there. */
function onceOf(
  parts: readonly Part[],
  outlive: readonly (readonly number[])[],
  held: readonly number[],
): Once | undefined {
  const which = (held[0] ?? 0) > (held[1] ?? 0) ? 0 : 1;
  const part = parts[which];
  const others = parts.map((_, at) => (at === which ? 0 : (held[at] ?? 0)));
  if (part === undefined || (held[which] ?? 0) <= 2 * Math.max(...others)) return undefined;
  const events = outlive[which] ?? [];
  return { part, events, after: part.to - (events.at(-1) ?? part.from) - 1 };
}

/** How many bytes an event asks for, and what few are of the most that is live of those asked for here. */
function askedIn({ kind, slot, bytes }: EventStream, lives: Lives, begin: number, end: number) {
  const bytesAt = (at: number) => bytes[at] ?? 0;
  let live = 0;
  let most = 0;
  for (let at = begin; at < end; at += 1) {
    const allocated = lives.allocatedAt[slot[at] ?? 0] ?? 0;
    if (kind[at] === eventKind.alloc) {
      live += bytesAt(at);
      most = Math.max(most, live);
    } else if (kind[at] === eventKind.free && allocated >= begin) live -= bytesAt(allocated);
  }
  return { bytesAt, few: most * fewShare };
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

/** Returns the points before which other batches may be inserted: the least memory is in use there, and no gradients are being accumulated. */
function beginsOf(
  { kind, slot }: EventStream,
  { freedAt }: Lives,
  starts: readonly number[],
  end: number,
): number[] {
  const change = new Int32Array(starts.length + 1);
  for (let at = starts[0] ?? end; at < end; at += 1) {
    const freed = freedAt[slot[at] ?? 0] ?? end;
    // What outlives the pass, such as the state of an optimizer, is held at each later place alike.
    if (kind[at] !== eventKind.alloc || freed >= end) continue;
    const next = batchOf(starts, at) + 1;
    change[next] = (change[next] ?? 0) + 1;
    const until = batchOf(starts, freed) + 1;
    change[until] = (change[until] ?? 0) - 1;
  }
  let sum = 0;
  const left = Array.from(change, (more) => (sum += more)).slice(0, starts.length);
  // At the last place, where no batch follows, all that is left outlives the pass.
  const usual = 2 * Math.min(...left.slice(1, -1)) + fewBlocks;
  return starts.filter((_, batch) => batch > 0 && (left[batch] ?? 0) <= usual);
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
  const events = new CopiedEvents(stream);
  let done = 0;
  for (const { parts, fixed, late, once } of passes) {
    events.copy(done, parts[0]?.from ?? done);
    const order = [...shuffled(parts, random), ...fixed];
    const last = order.at(-1);
    // A loader that fetches a batch ahead has a first part without a step.
    const first = once && order.find((part) => part !== last && part.to - part.from > once.after);
    const moved = first === undefined || first === once?.part ? undefined : once;
    /** The events of a part; it frees what those before it now have left. */
    const append = (part: Part, to: number, leftBy: (distance: number) => readonly number[]) => {
      const frees = new Map<number, readonly number[]>();
      for (const [which, taken] of part.takes.entries()) {
        const slots = leftBy(which + 1);
        if (taken.length === 0) events.free(slots);
        for (const [at, event] of taken.entries()) {
          frees.set(event, slots.slice(at, at === taken.length - 1 ? slots.length : at + 1));
        }
      }
      const changed =
        part === moved?.part
          ? [...part.changed, ...moved.events].toSorted((a, b) => a - b)
          : part.changed;
      const copyUntil = (end: number) => {
        for (; (changed[next] ?? end) < end; next += 1) {
          const event = changed[next] ?? end;
          events.copy(from, event);
          events.free(frees.get(event) ?? []);
          from = event + 1;
        }
        events.copy(from, end);
        from = end;
      };
      let next = 0;
      let { from } = part;
      if (part === first && moved !== undefined) {
        copyUntil(part.to - moved.after);
        for (const event of moved.events) events.copy(event, event + 1);
      }
      copyUntil(to);
    };
    for (const [at, part] of order.entries()) {
      if (part === last) {
        // What nothing is left for that would free it.
        const [, ...beyond] = order[at - 1]?.left ?? [];
        events.free([...late, ...beyond.flat()]);
      }
      done = part === last ? Math.max(part.from, ...part.takes.flat().map((e) => e + 1)) : part.to;
      append(part, done, (distance) => order[at - distance]?.left[distance - 1] ?? []);
    }
  }
  events.copy(done, stream.length);
  return events.finish();
}

function shuffled<T>(values: readonly T[], random: () => number): T[] {
  return values
    .map((value) => ({ value, by: random() }))
    .toSorted((a, b) => a.by - b.by)
    .map(({ value }) => value);
}

/**
 * Events of a stream in another order. They are copied many at a time: there are up to millions.
 *
 * @example
 * const events = new CopiedEvents(stream);
 * events.copy(100, 200);
 * events.copy(0, 100);
 * replay(events.finish()).peakReservedBytes;
 */
class CopiedEvents {
  readonly #stream: EventStream;
  readonly #kind: Uint8Array;
  readonly #slot: Int32Array;
  readonly #bytes: Float64Array;
  #length = 0;

  constructor(stream: EventStream) {
    this.#stream = stream;
    // Each event once, and each free once more.
    const most = stream.length + stream.slots;
    this.#kind = new Uint8Array(most);
    this.#slot = new Int32Array(most);
    this.#bytes = new Float64Array(most);
  }

  /** The events from `from` on, before `to`. */
  copy(from: number, to: number): void {
    if (to <= from) return;
    this.#kind.set(this.#stream.kind.subarray(from, to), this.#length);
    this.#slot.set(this.#stream.slot.subarray(from, to), this.#length);
    this.#bytes.set(this.#stream.bytes.subarray(from, to), this.#length);
    this.#length += to - from;
  }

  free(slots: readonly number[]): void {
    for (const slot of slots) {
      this.#kind[this.#length] = eventKind.free;
      this.#slot[this.#length] = slot;
      this.#length += 1;
    }
  }

  finish(): EventStream {
    const length = this.#length;
    return {
      ...this.#stream,
      length,
      kind: this.#kind.subarray(0, length),
      slot: this.#slot.subarray(0, length),
      bytes: this.#bytes.subarray(0, length),
      // Parts are as long as those that they take the place of, or nearly.
      marks: this.#stream.marks.map(({ at, name }) => ({ at: Math.min(at, length), name })),
    };
  }
}
