import { type EventStream, eventKind } from '../event-stream.js';
import type { Trace } from '../trace-file.js';
import { type ClosedSteps, closedSteps } from './closed-steps.js';

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
