import { gzipSync } from 'node:zlib';
import { blockStep } from '../estimate/allocator/sizes.js';
import type { SnapshotAnalysis } from '../snapshot/analyse.js';
import {
  frameText,
  isOwn,
  moduleFrame,
  ownFrame,
  placeText,
} from '../snapshot/answer/frame-place.js';
import type { Holder } from '../snapshot/answer/holders.js';
import { type SegmentLife, segmentLives } from '../snapshot/history/held-segments.js';
import { rebuildHistory } from '../snapshot/history/history.js';
import { before, type Lives, never } from '../snapshot/history/lives.js';
import type { DeviceSnapshot, Frame, Names } from '../snapshot/snapshot.js';
import { secondsAt } from './findings.js';
import type {
  ColumnName,
  PackedColumn,
  PageFrame,
  RecordingHeader,
  SegmentKind,
} from './recording-header.js';

/** What a page knows of a recording, before it is packed. */
interface SnapshotPageData {
  readonly header: Omit<RecordingHeader, 'columns'>;
  readonly columns: Readonly<Record<ColumnName, Column>>;
}

/** What a page may hold at most. */
export interface PageLimits {
  readonly ticks: number;
  readonly lives: number;
}

/** 8 bytes for each tick and 18 for each allocation, in a thread of the browser that draws nothing. */
const usualLimits: PageLimits = { ticks: 8_000_000, lives: 1_500_000 };
const timeParts = 4000;
const maxMarks = 2000;

/** Compacts what the analysis knows to what a browser can look into. */
export function snapshotPageData(
  analysis: SnapshotAnalysis,
  limits: PageLimits = usualLimits,
): SnapshotPageData {
  const { device, snapshot, history, leaks } = analysis;
  const { names } = snapshot;
  const { length: events } = device.events;
  const group = Math.max(1, Math.ceil(events / limits.ticks));
  const ticks = 1 + Math.ceil(events / group);
  const tickOf = (event: number) => 1 + Math.floor(event / group);
  const book = new StackBook(names);
  const segments = segmentLives(device, names);
  const space = new AddressSpace(segments);
  const lives = packLives(history.lives, {
    ticks,
    most: limits.lives,
    tickOf,
    space,
    stackOf: (stack) => book.numberOf(stack),
    offset: names.offset,
  });
  const { count, leastBytes, ...lifeColumns } = lives;
  const omitted = history.lives.length - count;
  const { kinds, ...segmentColumns } = packSegments(segments, {
    device,
    names,
    space,
    ticks,
    tickOf,
  });
  const time = timePoints(ticks, (tick) => secondsAt(analysis, Math.min(events, tick * group) - 1));
  const holders = (all: readonly Holder[]) =>
    all.flatMap(({ stack, bytes }) => [book.numberOf(stack), bytes]);
  return {
    header: {
      ticks,
      group,
      events,
      omitted,
      omittedBelowBytes: leastBytes,
      marks: {
        peak: events > 0 ? tickOf(Math.max(0, history.peakAllocated.index)) : 0,
        outOfMemory: history.outOfMemory.slice(-maxMarks).map(({ index }) => tickOf(index)),
        steps: leaks.steps.starts.slice(-maxMarks).map(tickOf),
      },
      regions: regionsOf(space, analysis),
      kinds,
      holdersNow: holders(analysis.holders),
      holdersPeak: holders(analysis.peakHolders),
      frames: book.frames,
      stacks: book.stacks,
      titles: book.titles,
    },
    columns: {
      ...lifeColumns,
      ...segmentColumns,
      timeTick: time.ticks,
      timeSecond: time.seconds,
      allocated: omitted > 0 ? levels(analysis) : new Float64Array(0),
    },
  };
}

function regionsOf(space: AddressSpace, { snapshot }: SnapshotAnalysis): [number, string][] {
  const { names } = snapshot;
  if (names.addressCount === 0) return [];
  const lowest = names.address(0) - BigInt(names.offset[0] ?? 0);
  return space.regions.map(({ place, offset }) => [
    place,
    `0x${(lowest + BigInt(offset)).toString(16)}`,
  ]);
}

/** The most that was allocated in each of a number of even parts. */
function levels({ snapshot, device }: SnapshotAnalysis): Float64Array {
  const allocated = new Float64Array(timeParts);
  const { length } = device.events;
  rebuildHistory(snapshot, device, (index, _row, now) => {
    const part = Math.min(timeParts - 1, Math.floor((index / length) * timeParts));
    if (now > (allocated[part] ?? 0)) allocated[part] = now;
  });
  return allocated;
}

type Column = Uint16Array | Uint32Array | Float64Array;

/** Characters in one piece: a browser takes each in a moment, and none of them holds up the page. */
const pieceLength = 2 ** 18;
/** Columns begin at multiples of this, so that a browser can look at them in place. */
const alignment = 8;

/**
 * The header and the columns as one packed text, in pieces: `length of header, header, columns`,
 * compressed, in base64.
 */
export function packRecording(
  header: Omit<RecordingHeader, 'columns'>,
  columns: Readonly<Record<ColumnName, Column>>,
): string[] {
  let start = 0;
  const places: [string, PackedColumn][] = [];
  const parts: Uint8Array[] = [];
  for (const [name, column] of Object.entries(columns)) {
    const bytes = new Uint8Array(column.buffer, column.byteOffset, column.byteLength);
    const filled = Math.ceil(bytes.length / alignment) * alignment;
    places.push([name, { kind: columnKind(column), start, length: column.length }]);
    parts.push(bytes, new Uint8Array(filled - bytes.length));
    start += filled;
  }
  const words = Buffer.from(JSON.stringify({ ...header, columns: Object.fromEntries(places) }));
  const room = Buffer.alloc(Math.ceil((alignment + words.length) / alignment) * alignment, ' ');
  room.writeDoubleLE(room.length - alignment, 0);
  words.copy(room, alignment);
  const text = gzipSync(Buffer.concat([room, ...parts])).toString('base64');
  const pieces: string[] = [];
  for (let at = 0; at < text.length; at += pieceLength)
    pieces.push(text.slice(at, at + pieceLength));
  return pieces;
}

function columnKind(column: Column): PackedColumn['kind'] {
  if (column instanceof Float64Array) return 'f64';
  return column instanceof Uint32Array ? 'u32' : 'u16';
}

/** A page lists so many stacks; allocations of further ones are shown without frames. */
const maxStacks = 8000;

/** The stacks and frames that a page speaks of, numbered in the order in which they are met. */
class StackBook {
  readonly frames: PageFrame[] = [];
  /** Frames of each stack, the innermost first. Number 0 has none. */
  readonly stacks: number[][] = [[]];
  /** Each stack in a few words. */
  readonly titles: string[] = [stackTitle([])];
  readonly #names: Names;
  readonly #frameNumbers = new Map<number, number>();
  readonly #stackNumbers = new Map<number, number>([[0, 0]]);

  constructor(names: Names) {
    this.#names = names;
  }

  /** The number on the page of a stack of the snapshot. */
  numberOf(stack: number): number {
    const known = this.#stackNumbers.get(stack);
    if (known !== undefined) return known;
    if (this.stacks.length >= maxStacks) return 0;
    const { stacks } = this.#names;
    const frames = [...stacks.frames.subarray(stacks.startOf(stack), stacks.endOf(stack))];
    this.stacks.push(frames.map((frame) => this.#frameNumber(frame)));
    this.titles.push(stackTitle(this.#names.stack(stack)));
    const number = this.stacks.length - 1;
    this.#stackNumbers.set(stack, number);
    return number;
  }

  #frameNumber(frame: number): number {
    const known = this.#frameNumbers.get(frame);
    if (known !== undefined) return known;
    const whole = this.#names.frame(frame);
    this.frames.push([whole.name, placeText(whole), isOwn(whole) ? 1 : 0]);
    this.#frameNumbers.set(frame, this.frames.length - 1);
    return this.frames.length - 1;
  }
}

/**
 * A stack in a few words: the call that allocated, the part of the model that it was for, and the
 * user's own line.
 *
 * @example
 * stackTitle(frames); // 'linear, forward (gpt2/modeling_gpt2.py:552), step (train.py:58)'
 */
export function stackTitle(frames: readonly Frame[]): string {
  const [innermost] = frames;
  if (innermost === undefined) return 'no frames recorded';
  const further = new Set([moduleFrame(frames), ownFrame(frames)]);
  further.delete(innermost);
  const known = [...further].filter((frame) => frame !== undefined);
  if (known.length === 0) return frameText(innermost);
  return [innermost.name, ...known.map(frameText)].join(', ');
}

/** A stretch of addresses, as bytes above the lowest one. */
interface AddressRange {
  readonly offset: number;
  readonly bytes: number;
}

/**
 * The addresses of a snapshot lie far apart. Here the gaps between are taken out, so that a place
 * is a small number: units of 512 bytes, regions one after the other with a unit between them.
 */
export class AddressSpace {
  readonly regions: readonly { readonly place: number; readonly offset: number }[];
  readonly #ends: readonly number[];

  constructor(ranges: readonly AddressRange[]) {
    const regions: { place: number; offset: number; end: number }[] = [];
    for (const { offset, bytes } of ranges.toSorted((a, b) => a.offset - b.offset)) {
      const last = regions.at(-1);
      const end = offset + bytes;
      if (last && offset <= last.end) last.end = Math.max(last.end, end);
      else {
        const place = last ? last.place + Math.ceil((last.end - last.offset) / blockStep) + 1 : 0;
        regions.push({ place, offset, end });
      }
    }
    this.regions = regions;
    this.#ends = regions.map(({ end }) => end);
  }

  /** The place of an offset; undefined where it lies in no region. */
  placeOf(offset: number): number | undefined {
    let low = 0;
    let high = this.#ends.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#ends[middle] ?? 0) <= offset) low = middle + 1;
      else high = middle;
    }
    const region = this.regions[low];
    if (region === undefined || offset < region.offset) return undefined;
    return region.place + Math.floor((offset - region.offset) / blockStep);
  }
}

interface PackedLives {
  readonly count: number;
  readonly leastBytes: number;
  readonly born: Uint32Array;
  readonly span: Uint32Array;
  readonly units: Uint32Array;
  readonly stack: Uint16Array;
  readonly place: Uint32Array;
  readonly pendingLife: Uint32Array;
  readonly pendingUntil: Uint32Array;
}

interface PackOptions {
  readonly ticks: number;
  /** Allocations on the page at most; the smallest are left out. */
  readonly most: number;
  /** The tick of an event. */
  readonly tickOf: (event: number) => number;
  readonly space: AddressSpace;
  readonly stackOf: (stack: number) => number;
  readonly offset: Float64Array;
}

/** A place of no region: the recording lost the segment. */
const noPlace = 2 ** 32 - 1;

/** The allocations of a recording in the columns of a page, in the order in which they were made. */
function packLives(lives: Lives, options: PackOptions): PackedLives {
  const { ticks, most, tickOf, space, stackOf, offset } = options;
  const least = leastShown(lives.bytes.subarray(0, lives.length), most);
  const room = Math.min(lives.length, most);
  const born = new Uint32Array(room);
  const span = new Uint32Array(room);
  const units = new Uint32Array(room);
  const stack = new Uint16Array(room);
  const place = new Uint32Array(room);
  const pending: [number, number][] = [];
  let count = 0;
  let previous = 0;
  for (let life = 0; life < lives.length && count < room; life += 1) {
    const bytes = lives.bytes[life] ?? 0;
    if (bytes < least) continue;
    const began = lives.born[life] ?? before;
    const freed = lives.freed[life] ?? never;
    const start = began === before ? 0 : tickOf(began);
    const end = freed === never ? ticks : tickOf(freed);
    // Born and freed within one group of events: too short to be seen.
    if (end <= start) continue;
    born[count] = start - previous;
    previous = start;
    span[count] = end - start;
    units[count] = Math.round(bytes / blockStep);
    stack[count] = stackOf(lives.stack[life] ?? 0);
    place[count] = space.placeOf(offset[lives.address[life] ?? -1] ?? -1) ?? noPlace;
    const returned = lives.returned[life] ?? never;
    const until = returned === never ? ticks : tickOf(returned);
    // The next event as a rule. Only what a stream held for longer is worth a word.
    if (freed !== never && until > end + 1) pending.push([count, until]);
    count += 1;
  }
  return {
    count,
    leastBytes: least,
    born: born.subarray(0, count),
    span: span.subarray(0, count),
    units: units.subarray(0, count),
    stack: stack.subarray(0, count),
    place: place.subarray(0, count),
    pendingLife: Uint32Array.from(pending, ([life]) => life),
    pendingUntil: Uint32Array.from(pending, ([, until]) => until),
  };
}

/** The size below which allocations are left out, so that no more than the page can hold remain. */
function leastShown(bytes: Float64Array, most: number): number {
  if (bytes.length <= most) return 0;
  return bytes.toSorted()[bytes.length - most] ?? 0;
}

interface PackedSegments {
  readonly kinds: readonly SegmentKind[];
  readonly segmentBorn: Uint32Array;
  readonly segmentEnd: Uint32Array;
  readonly segmentPlace: Uint32Array;
  readonly segmentUnits: Uint32Array;
  readonly segmentKind: Uint16Array;
}

/** The segments of a recording in the columns of a page. */
function packSegments(
  lives: readonly SegmentLife[],
  {
    device,
    names,
    space,
    ticks,
    tickOf,
  }: {
    readonly device: DeviceSnapshot;
    readonly names: Names;
    readonly space: AddressSpace;
    readonly ticks: number;
    readonly tickOf: (event: number) => number;
  },
): PackedSegments {
  const pools = new Map(
    device.segments.map(({ address, pool }) => [names.offset[address] ?? 0, pool]),
  );
  const kinds: SegmentKind[] = [];
  const numbers = new Map<string, number>();
  const kindOf = (life: SegmentLife): number => {
    const pool = life.freed === never ? (pools.get(life.offset) ?? '0,0') : '0,0';
    const words = [
      life.type,
      life.stream !== 0 && `stream ${names.stream(life.stream)}`,
      pool !== '0,0' && `pool ${pool}`,
      life.isPage && 'expandable',
    ];
    const text = words.filter(Boolean).join(', ');
    const known = numbers.get(text);
    if (known !== undefined) return known;
    numbers.set(text, kinds.length);
    return kinds.push({ words: text, pages: life.isPage }) - 1;
  };
  return {
    segmentBorn: Uint32Array.from(lives, ({ born }) => (born === before ? 0 : tickOf(born))),
    segmentEnd: Uint32Array.from(lives, ({ freed }) => (freed === never ? ticks : tickOf(freed))),
    segmentPlace: Uint32Array.from(lives, ({ offset }) => space.placeOf(offset) ?? 0),
    segmentUnits: Uint32Array.from(lives, ({ bytes }) => Math.ceil(bytes / blockStep)),
    segmentKind: Uint16Array.from(lives, kindOf),
    kinds,
  };
}

/** Points between which time goes on evenly over ticks. */
interface TimePoints {
  readonly ticks: Uint32Array;
  readonly seconds: Float64Array;
}

/** A twenty-thousandth of the recording: less than a pixel of any screen. */
const tolerance = 1 / 20_000;
/** More points would make the page larger, and show nothing more. */
const maxPoints = 100_000;

/**
 * As few points as tell the time of every tick to within the tolerance; none where the recording
 * has no times.
 */
export function timePoints(ticks: number, secondsOf: (tick: number) => number): TimePoints {
  const last = Math.max(0, ticks - 1);
  const whole = secondsOf(last);
  if (!(whole > 0)) return { ticks: new Uint32Array(0), seconds: new Float64Array(0) };
  const error = whole * tolerance;
  const points: [number, number][] = [[0, secondsOf(0)]];
  let [tick, seconds] = points[0] ?? [0, 0];
  let steepest = Infinity;
  let flattest = 0;
  let previous = seconds;
  for (let at = 1; at <= last && points.length < maxPoints; at += 1) {
    // Threads write their events at once: a time may step back a little.
    const now = Math.max(previous, secondsOf(at));
    const slope = (now - seconds) / (at - tick);
    if (slope > steepest || slope < flattest) {
      [tick, seconds] = [at - 1, previous];
      points.push([tick, seconds]);
      steepest = Infinity;
      flattest = 0;
    }
    steepest = Math.min(steepest, (now + error - seconds) / (at - tick));
    flattest = Math.max(flattest, (now - error - seconds) / (at - tick));
    previous = now;
  }
  points.push([last, Math.max(previous, whole)]);
  return {
    ticks: Uint32Array.from(points, ([at]) => at),
    seconds: Float64Array.from(points, ([, at]) => at),
  };
}
