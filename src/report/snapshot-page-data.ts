import type { SnapshotAnalysis } from '../snapshot/analyse.js';
import { rebuildHistory } from '../snapshot/history/history.js';
import { before, never } from '../snapshot/history/lives.js';
import type { Segment } from '../snapshot/snapshot.js';
import { secondsAt } from './snapshot-findings.js';
import { type FlameNode, flameTree } from './snapshot-flame.js';
import { StackBook } from './snapshot-stack-book.js';

/** What the script of the page draws. Names are short because there may be many of them. */
export interface SnapshotPageData {
  /** Events, or groups of them where there are more than the page can hold. */
  readonly ticks: number;
  /** Seconds at even distances over the ticks. */
  readonly seconds: readonly number[];
  /** The most allocated and reserved in each of a number of even parts, exact. */
  readonly allocated: readonly number[];
  readonly reserved: readonly number[];
  /** Allocations: first tick, tick after the last, size in 512 bytes, stack; base64 of columns. */
  readonly lives: {
    readonly count: number;
    readonly omitted: number;
    readonly from: string;
    readonly to: string;
    readonly size: string;
    readonly stack: string;
  };
  readonly marks: {
    readonly peak: number;
    readonly outOfMemory: readonly number[];
    readonly steps: readonly number[];
  };
  readonly segments: readonly PageSegment[];
  readonly flame: { readonly now: FlameNode; readonly peak: FlameNode | undefined };
  readonly frames: readonly string[];
  readonly stacks: readonly (readonly number[])[];
}

export interface PageSegment {
  readonly address: string;
  readonly bytes: number;
  readonly what: string;
  /** Size and stack of each block in turn; -1: free. */
  readonly blocks: readonly number[];
}

/** More ticks than pixels of any screen, and few enough to go through at every redraw. */
const maxTicks = 2_000_000;
/** 14 bytes each: 7 MB of a page, a third more in its letters. What is left out are the smallest. */
const maxLives = 500_000;
const parts = 4000;
const maxMarks = 2000;
const maxSegments = 300;
const maxBlocks = 40_000;

/** Compacts what the analysis knows to what a browser can draw smoothly. */
export function snapshotPageData(analysis: SnapshotAnalysis): SnapshotPageData {
  const { device, snapshot, history, leaks } = analysis;
  const { events } = device;
  const group = Math.max(1, Math.ceil(events.length / maxTicks));
  const ticks = Math.ceil(events.length / group);
  const tickOf = (index: number) => Math.floor(index / group);
  const book = new StackBook(snapshot.names);
  const { allocated, reserved } = levels(analysis);
  return {
    ticks,
    seconds: Array.from({ length: 501 }, (_, at) =>
      round(secondsAt(analysis, Math.floor((at / 500) * Math.max(0, events.length - 1)))),
    ),
    allocated,
    reserved,
    lives: livesOf(analysis, tickOf, ticks, book),
    marks: {
      peak: tickOf(Math.max(0, history.peakAllocated.index)),
      outOfMemory: history.outOfMemory.slice(-maxMarks).map(({ index }) => tickOf(index)),
      steps: leaks.steps.starts.slice(-maxMarks).map(tickOf),
    },
    segments: segmentsOf(analysis, book),
    flame: {
      now: flameTree(analysis.holders, book),
      peak: analysis.peakHolders.length > 0 ? flameTree(analysis.peakHolders, book) : undefined,
    },
    frames: book.frames,
    stacks: book.stacks,
  };
}

function levels({ snapshot, device }: SnapshotAnalysis) {
  const allocated = Array.from({ length: parts }, () => 0);
  const reserved = Array.from({ length: parts }, () => 0);
  const { length } = device.events;
  rebuildHistory(snapshot, device, (index, _row, now, _active, held) => {
    const part = Math.min(parts - 1, Math.floor((index / length) * parts));
    if (now > (allocated[part] ?? 0)) allocated[part] = now;
    if (held > (reserved[part] ?? 0)) reserved[part] = held;
  });
  // Fewer events than parts leave parts empty: nothing changed there.
  for (let part = 1; part < parts; part += 1) {
    if (length >= parts) break;
    if (reserved[part] === 0) reserved[part] = reserved[part - 1] ?? 0;
    if (allocated[part] === 0) allocated[part] = allocated[part - 1] ?? 0;
  }
  return { allocated, reserved };
}

function livesOf(
  { history }: SnapshotAnalysis,
  tickOf: (index: number) => number,
  ticks: number,
  book: StackBook,
): SnapshotPageData['lives'] {
  const { lives } = history;
  const least = leastShown(lives.bytes.subarray(0, lives.length));
  const room = Math.min(lives.length, maxLives);
  const from = new Uint32Array(room);
  const to = new Uint32Array(room);
  const size = new Uint32Array(room);
  const stack = new Uint16Array(room);
  let count = 0;
  for (let life = 0; life < lives.length && count < room; life += 1) {
    const bytes = lives.bytes[life] ?? 0;
    if (bytes < least) continue;
    const born = lives.born[life] ?? before;
    const freed = lives.freed[life] ?? never;
    const start = born === before ? 0 : tickOf(born);
    const end = freed === never ? ticks : tickOf(freed);
    // Born and freed within one group of events: too short to be seen.
    if (end <= start) continue;
    from[count] = start;
    to[count] = end;
    size[count] = Math.round(bytes / 512);
    stack[count] = book.numberOf(lives.stack[life] ?? 0);
    count += 1;
  }
  const packed = (column: Uint32Array | Uint16Array) =>
    Buffer.from(column.buffer, 0, count * column.BYTES_PER_ELEMENT).toString('base64');
  return {
    count,
    omitted: lives.length - count,
    from: packed(from),
    to: packed(to),
    size: packed(size),
    stack: packed(stack),
  };
}

/** The size below which allocations are left out, so that no more than the page can hold remain. */
function leastShown(bytes: Float64Array): number {
  if (bytes.length <= maxLives) return 0;
  return bytes.toSorted()[bytes.length - maxLives] ?? 0;
}

function segmentsOf({ device, snapshot }: SnapshotAnalysis, book: StackBook): PageSegment[] {
  const { names } = snapshot;
  let blocks = 0;
  const shown: PageSegment[] = [];
  const ordered = device.segments.toSorted(
    (a, b) => b.activeBytes - a.activeBytes || b.totalBytes - a.totalBytes,
  );
  for (const segment of ordered.slice(0, maxSegments)) {
    blocks += segment.blocks.length;
    if (blocks > maxBlocks) break;
    shown.push({
      address: `0x${names.address(segment.address).toString(16)}`,
      bytes: segment.totalBytes,
      what: segmentWords(segment, names.stream(segment.stream)),
      blocks: segment.blocks.flatMap(({ bytes, state, stack }) => [
        bytes,
        state === 'inactive' ? -1 : book.numberOf(stack),
      ]),
    });
  }
  return shown;
}

function segmentWords({ type, stream, pool, expandable }: Segment, streamName: string): string {
  return [
    type,
    stream !== 0 && `stream ${streamName}`,
    pool !== '0,0' && `pool ${pool}`,
    expandable && 'expandable',
  ]
    .filter(Boolean)
    .join(', ');
}

function round(seconds: number): number {
  return Math.round(seconds * 1e6) / 1e6;
}
