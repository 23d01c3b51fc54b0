import { type EventStream, eventKind } from '../event-stream.js';
import { type Lives, livesOf } from './lives.js';

/** Where a trace left batches out, and the steps before that place: those that were left out are like these. */
export interface ClosedSteps {
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
/** What asks for nothing of the card but memory. */
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
