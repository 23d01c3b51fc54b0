import { type EventStream, eventKind } from '../event-stream.js';
import type { Trace } from '../trace-file.js';

/** After so many more equal steps an allocator takes nothing new. On a card the last that did were the seventh and the seventeenth. */
const repeats = 16;
/** Events that are added in all: they are replayed in less than a second. */
const addedEvents = 500_000;

/**
 * The same job with steps that its trace left out, where it knows how many a real run has: an allocator may take one
 * more segment only in a later one of equal steps. Nothing where none were left out, or batches differ.
 *
 * @example
 * const longer = withLeftOutSteps(trace);
 * replay(longer?.stream ?? trace.stream).peakReservedBytes;
 */
export function withLeftOutSteps(trace: Trace): Trace | undefined {
  const all = trace.ragged ? [] : closedSteps(trace.stream);
  const share = addedEvents / all.length;
  const steps = all.flatMap((one) => {
    const times = Math.min(one.times, repeats, Math.floor(share / (one.to - one.from)));
    return times > 0 ? [{ ...one, times }] : [];
  });
  if (steps.length === 0) return undefined;
  const { stream, like } = repeated(trace.stream, steps);
  return {
    ...trace,
    stream,
    category: Uint8Array.from(like, (slot) => trace.category[slot] ?? 0),
    module: Int32Array.from(like, (slot) => trace.module[slot] ?? 0),
  };
}

/** `like`: by slot, the one of the given stream that it is or repeats. */
function repeated(stream: EventStream, steps: readonly ClosedSteps[]) {
  const { kind, slot, bytes } = stream;
  const most = steps.reduce(
    (sum, { from, to, times, added }) => sum + times * (to - from + added.length),
    stream.length,
  );
  const copied = {
    kind: new Uint8Array(most),
    slot: new Int32Array(most),
    bytes: new Float64Array(most),
  };
  let length = 0;
  const put = (what: number, place: number, size: number) => {
    copied.kind[length] = what;
    copied.slot[length] = place;
    copied.bytes[length] = size;
    length += 1;
  };
  const like = Array.from({ length: stream.slots }, (_, place) => place);
  /** By slot of the stream: who has its place now. */
  const now = Int32Array.from(like);
  const copies = new Int32Array(stream.slots);
  const moved: { readonly at: number; readonly by: number }[] = [];
  let done = 0;
  const copyUntil = (end: number) => {
    for (; done < end; done += 1) {
      put(kind[done] ?? 0, now[slot[done] ?? 0] ?? 0, bytes[done] ?? 0);
    }
  };
  for (const { from, to, times, replaced, left, added } of steps) {
    copyUntil(to);
    const before = length;
    for (let time = 0; time < times; time += 1) {
      for (let at = from; at < to; at += 1) {
        const what = kind[at] ?? eventKind.none;
        const place = slot[at] ?? 0;
        if (what === eventKind.alloc) {
          copies[place] = like.length;
          like.push(place);
          put(what, copies[place], bytes[at] ?? 0);
        } else if (what === eventKind.emptyCache) {
          put(what, 0, 0);
        } else if (what === eventKind.free) {
          const taken = replaced.get(at);
          if (taken !== undefined) put(what, now[taken] ?? 0, 0);
          else if (!replaced.has(at)) put(what, copies[place] ?? 0, 0);
        }
      }
      for (const place of added) put(eventKind.free, now[place] ?? 0, 0);
      for (const place of left) now[place] = copies[place] ?? 0;
    }
    moved.push({ at: to, by: length - before });
  }
  copyUntil(stream.length);
  const shift = (at: number) => moved.reduce((sum, one) => (one.at <= at ? sum + one.by : sum), at);
  return {
    like,
    stream: {
      length,
      slots: like.length,
      kind: copied.kind.subarray(0, length),
      slot: copied.slot.subarray(0, length),
      bytes: copied.bytes.subarray(0, length),
      streams: Uint8Array.from(like, (place) => stream.streams[place] ?? 0),
      spare: Uint8Array.from(like, (place) => stream.spare[place] ?? 0),
      marks: stream.marks.map(({ at, name }) => ({ at: shift(at), name })),
    },
  };
}

/** A gap in a trace, and the steps before it: the left-out steps are like them. */
interface ClosedSteps {
  /** The first event of the steps, and the one after their last. */
  readonly from: number;
  readonly to: number;
  /** How many times a real run goes through them again, as far as the trace knows. */
  readonly times: number;
  /** By event of the steps that frees what was there before them: the slot that they leave in its place, if any. */
  readonly replaced: ReadonlyMap<number, number | undefined>;
  /** Slots that they leave. */
  readonly left: readonly number[];
  /** Those of them that take the place of none: a value for a report and the like. */
  readonly added: readonly number[];
}

/** Values for a report, which one step leaves and another does not. */
const fewBytes = 64 * 1024;
/** Of a pass through a loader, or of a loop over numbers. */
const beginMark = /^(?:batch|turn):(t?\d+)$/;
/** The pass or loop, batches or turns that were left out, and of how many a step is. */
const leftOutMark = /^left-out:(t?\d+):(\d+):(\d+)$/;
/** Events that only use memory of the card. */
const repeatable: ReadonlySet<number> = new Set([
  eventKind.alloc,
  eventKind.free,
  eventKind.emptyCache,
  eventKind.none,
]);

/**
 * The steps before each place at which a trace left batches out, if they leave what they found: as much memory, in
 * blocks of the same sizes. Others, such as the first step of an optimizer, come once.
 *
 * @example
 * closedSteps(trace.stream).map(({ times }) => times); // [12, 12]
 */
export function closedSteps(stream: EventStream): ClosedSteps[] {
  const begins = new Map<string, number[]>();
  const found: ClosedSteps[] = [];
  let lives: Lives | undefined;
  for (const { at, name } of stream.marks) {
    const pass = beginMark.exec(name)?.[1];
    if (pass !== undefined) begins.set(pass, [...(begins.get(pass) ?? []), at]);
    const [, of = '', batches, each] = leftOutMark.exec(name) ?? [];
    if (of === '') continue;
    lives ??= livesOf(stream);
    const before = (begins.get(of) ?? []).filter((begin) => begin < at);
    const steps = stepsBefore(stream, lives, before, at, Number(batches), Number(each));
    // Two loaders that are read together leave out the same steps.
    if (steps !== undefined && steps.from >= (found.at(-1)?.to ?? 0)) found.push(steps);
  }
  return found;
}

/** As few as can be. */
function stepsBefore(
  stream: EventStream,
  lives: Lives,
  begins: readonly number[],
  to: number,
  batches: number,
  each: number,
): ClosedSteps | undefined {
  for (let many = each; many > 0 && many <= Math.min(begins.length, batches); many += each) {
    const from = begins.at(-many) ?? to;
    const steps = closed(stream, lives, from, to, Math.floor(batches / many));
    if (steps !== undefined) return steps;
  }
  return undefined;
}

function closed(
  { kind, slot, bytes }: EventStream,
  { allocatedAt, freedAt }: Lives,
  from: number,
  to: number,
  times: number,
): ClosedSteps | undefined {
  const taken: number[] = [];
  const left: number[] = [];
  for (let at = from; at < to; at += 1) {
    const what = kind[at] ?? eventKind.none;
    const place = slot[at] ?? 0;
    if (!repeatable.has(what)) return undefined;
    if (what === eventKind.free && (allocatedAt[place] ?? 0) < from) taken.push(at);
    else if (what === eventKind.alloc && (freedAt[place] ?? 0) >= to) left.push(place);
  }
  const bytesOf = (place: number) => bytes[allocatedAt[place] ?? 0] ?? 0;
  const waiting = new Map<number, number[]>();
  // What follows the steps frees first what they leave to each other.
  for (const place of left.toSorted((a, b) => (freedAt[a] ?? 0) - (freedAt[b] ?? 0))) {
    const alike = waiting.get(bytesOf(place));
    if (alike === undefined) waiting.set(bytesOf(place), [place]);
    else alike.push(place);
  }
  const replaced = new Map<number, number | undefined>();
  let more = 0;
  for (const at of taken) {
    const size = bytesOf(slot[at] ?? 0);
    const place = waiting.get(size)?.shift();
    replaced.set(at, place);
    if (place === undefined) more += size;
  }
  const added = [...waiting.values()].flat();
  for (const place of added) more += bytesOf(place);
  return more > fewBytes ? undefined : { from, to, times, replaced, left, added };
}

/** By slot: the events that ask for it and free it. */
export interface Lives {
  readonly allocatedAt: Int32Array;
  /** The length of the stream where nothing frees it. */
  readonly freedAt: Int32Array;
}

export function livesOf({ kind, slot, length, slots }: EventStream): Lives {
  const allocatedAt = new Int32Array(slots);
  const freedAt = new Int32Array(slots).fill(length);
  for (let at = 0; at < length; at += 1) {
    if (kind[at] === eventKind.alloc) allocatedAt[slot[at] ?? 0] = at;
    else if (kind[at] === eventKind.free) freedAt[slot[at] ?? 0] = at;
  }
  return { allocatedAt, freedAt };
}
