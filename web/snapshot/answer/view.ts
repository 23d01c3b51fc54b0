import { type Recording, unitBytes } from '../data/recording.js';
import type { AxisKind } from '../data/time-axis.js';

export interface ViewRequest extends AxisRange {
  readonly mode: 'stacks' | 'allocations';
  /** Pixels of the screen. */
  readonly width: number;
  readonly height: number;
  /** Bytes at the lower and the upper edge; left out: all that there is in the range. */
  readonly vertical: { readonly low: number; readonly high: number } | undefined;
}

/** A picture of a stretch of the recording, as numbers: what lies at each pixel. */
export interface View {
  readonly request: ViewRequest;
  readonly low: number;
  readonly high: number;
  /** For each pixel, row by row: the place of its stack's colour; `rest`, or `empty`. */
  readonly shades: Uint8Array;
  /** For each pixel: the allocation, or the stack, that lies there; -1: none, or many. */
  readonly ids: Int32Array;
  /** For each column: the tick that it shows, and the bytes held then. */
  readonly sample: Uint32Array;
  readonly allocated: Float64Array;
  readonly reserved: Float64Array;
  /** The exact level, where allocations are left out. */
  readonly exact: Float64Array;
  /** Bytes below which allocations are drawn as one. */
  readonly leastBytes: number;
}

export const rest = 254;
export const empty = 255;
/** Added to the shade at the edge of a band. */
export const edge = 128;
/** A band of less than this many pixels is drawn with the rest. */
const leastPixels = 0.5;
/** Room above the highest. */
const headroom = 1.06;

export function viewOf(recording: Recording, request: ViewRequest): View {
  const { width, height } = request;
  const columns = columnsOf(recording, request, width);
  const allocated = Float64Array.from(
    columns.sample,
    (tick) => (recording.level[tick] ?? 0) * unitBytes,
  );
  const reserved = reservedIn(recording, columns, width);
  const exact = exactIn(recording, columns);
  const highest = [allocated, reserved, exact].map(largest);
  const top = Math.max(unitBytes, ...highest) * headroom;
  const { low, high } = request.vertical ?? { low: 0, high: top };
  const canvas = new Canvas(width, height, low, high);
  const leastBytes =
    request.mode === 'stacks'
      ? drawStacks(recording, columns, canvas)
      : drawAllocations(recording, columns, canvas);
  const { shades, ids } = canvas;
  const { sample } = columns;
  return { request, low, high, shades, ids, sample, allocated, reserved, exact, leastBytes };
}

function largest(values: Float64Array): number {
  return values.reduce((most, value) => Math.max(most, value), 0);
}

/** Bands are put on top of each other, column by column. */
class Canvas {
  readonly shades: Uint8Array;
  readonly ids: Int32Array;
  readonly base: Float64Array;
  readonly bytesPerPixel: number;

  constructor(
    readonly width: number,
    readonly height: number,
    readonly low: number,
    high: number,
  ) {
    this.shades = new Uint8Array(width * height).fill(empty);
    this.ids = new Int32Array(width * height).fill(-1);
    this.base = new Float64Array(width);
    this.bytesPerPixel = (high - low) / height;
  }

  put(x: number, bytes: number, shade: number, id: number): void {
    const { base, width, height, shades, ids } = this;
    const bottom = base[x] ?? 0;
    base[x] = bottom + bytes;
    const from = Math.max(0, this.#row(bottom));
    const to = Math.min(height, this.#row(bottom + bytes));
    for (let row = from; row < to; row += 1) {
      const at = (height - 1 - row) * width + x;
      const isEdge = row === to - 1 && to - from > 2 && shade < edge;
      shades[at] = isEdge ? shade + edge : shade;
      ids[at] = id;
    }
  }

  /** Rows from the bottom up. */
  #row(bytes: number): number {
    return Math.round((bytes - this.low) / this.bytesPerPixel);
  }
}

function drawStacks(recording: Recording, columns: ViewColumns, canvas: Canvas): number {
  const { count, from, to, units, stack, stacks } = recording;
  const { width } = canvas;
  const layers = stacks.order.length + 1;
  const changes = Array.from({ length: layers }, () => new Float64Array(width + 1));
  for (let life = 0; life < count; life += 1) {
    const [first, after] = columns.stretch(from[life] ?? 0, to[life] ?? 0);
    if (after <= first) continue;
    const place = stacks.placeOf[stack[life] ?? 0] ?? -1;
    change(changes[place < 0 ? layers - 1 : place], first, after, units[life] ?? 0);
  }
  changes.forEach((layer, place) => {
    const own = stacks.order[place];
    putLevels(canvas, layer, own === undefined ? rest : place, own ?? -1);
  });
  return 0;
}

/** The longest-lived at the bottom, so that what is steady stays where it is. */
function drawAllocations(recording: Recording, columns: ViewColumns, canvas: Canvas): number {
  const { from, to, units, stack, stacks, byLifetime } = recording;
  const least = Math.ceil((canvas.bytesPerPixel * leastPixels) / unitBytes);
  const small = new Float64Array(canvas.width + 1);
  for (const life of byLifetime) {
    const [first, after] = columns.stretch(from[life] ?? 0, to[life] ?? 0);
    if (after <= first) continue;
    const size = units[life] ?? 0;
    if (size < least) {
      change(small, first, after, size);
      continue;
    }
    const place = stacks.placeOf[stack[life] ?? 0] ?? -1;
    const bytes = size * unitBytes;
    for (let x = first; x < after; x += 1) canvas.put(x, bytes, place < 0 ? edge - 1 : place, life);
  }
  putLevels(canvas, small, rest, -1);
  return least * unitBytes;
}

function change(levels: Float64Array | undefined, first: number, after: number, by: number): void {
  if (levels === undefined) return;
  levels[first] = (levels[first] ?? 0) + by;
  levels[after] = (levels[after] ?? 0) - by;
}

function putLevels(canvas: Canvas, changes: Float64Array, shade: number, id: number): void {
  let level = 0;
  for (let x = 0; x < canvas.width; x += 1) {
    level += changes[x] ?? 0;
    if (level > 0) canvas.put(x, level * unitBytes, shade, id);
  }
}

function reservedIn({ segments }: Recording, columns: ViewColumns, width: number): Float64Array {
  const reserved = new Float64Array(width + 1);
  segments.born.forEach((born, at) => {
    const [first, after] = columns.stretch(born, segments.end[at] ?? 0);
    if (after > first) change(reserved, first, after, (segments.units[at] ?? 0) * unitBytes);
  });
  for (let x = 1; x < width; x += 1) reserved[x] = (reserved[x] ?? 0) + (reserved[x - 1] ?? 0);
  return reserved.subarray(0, width);
}

function exactIn({ exact, header }: Recording, { begin }: ViewColumns): Float64Array {
  if (exact.length === 0) return new Float64Array(0);
  const part = (tick: number) =>
    Math.min(exact.length - 1, Math.floor((tick / header.ticks) * exact.length));
  return Float64Array.from(begin.subarray(0, -1), (tick, x) => {
    const parts = exact.subarray(part(tick), part(begin[x + 1] ?? tick) + 1);
    return largest(parts);
  });
}

/** A stretch of the horizontal axis: seconds, or ticks. */
interface AxisRange {
  readonly axis: AxisKind;
  readonly from: number;
  readonly to: number;
}

/** Which instant each column of pixels shows, and in which columns something is seen. */
interface ViewColumns {
  /** The tick that each column shows: that with the most allocated in it, so that no peak is lost. */
  readonly sample: Uint32Array;
  /** The tick that each column begins with, and that the last one ends with. */
  readonly begin: Uint32Array;
  /** The columns, first and after the last, that show a life of these ticks. */
  stretch(from: number, to: number): readonly [number, number];
}

/** One table for all views of a recording: it may be as long as the recording. */
const tables = new WeakMap<Recording, Uint16Array>();

function columnsOf(recording: Recording, range: AxisRange, width: number): ViewColumns {
  const { header, level, time } = recording;
  const last = header.ticks - 1;
  const tickAt = (share: number) => {
    const value = range.from + share * (range.to - range.from);
    const tick = range.axis === 'time' ? time.tickAt(value) : Math.floor(value);
    return Math.min(last, Math.max(0, tick));
  };
  const sample = new Uint32Array(width);
  const begins = Uint32Array.from({ length: width + 1 }, (_, x) => tickAt(x / width));
  for (let x = 0; x < width; x += 1) {
    const begin = begins[x] ?? 0;
    // On a linear axis of time the last tick of a column is still in it.
    const end = (begins[x + 1] ?? 0) + (range.axis === 'time' ? 1 : 0);
    let best = begin;
    for (let tick = begin + 1; tick < end; tick += 1) {
      if ((level[tick] ?? 0) > (level[best] ?? 0)) best = tick;
    }
    sample[x] = best;
  }
  const table = tables.get(recording) ?? new Uint16Array(header.ticks + 2);
  tables.set(recording, table);
  const [start, end] = [sample[0] ?? 0, sample[width - 1] ?? 0];
  for (let tick = start, x = 0; tick <= end + 1; tick += 1) {
    while (x < width && (sample[x] ?? 0) < tick) x += 1;
    table[tick] = x;
  }
  return {
    sample,
    begin: begins,
    stretch(from, to) {
      const first = from <= start ? 0 : from > end ? width : (table[from] ?? width);
      const after = to <= start ? 0 : to > end ? width : (table[to] ?? width);
      return [first, after];
    },
  };
}
