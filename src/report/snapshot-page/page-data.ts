import type { SnapshotAnalysis } from '../../snapshot/analyse.js';
import type { Holder } from '../../snapshot/answer/holders.js';
import { rebuildHistory } from '../../snapshot/history/history.js';
import { segmentLives } from '../../snapshot/history/segment-lives.js';
import { secondsAt } from '../snapshot-findings.js';
import { AddressSpace } from './address-space.js';
import type { Column } from './pack.js';
import { packLives } from './packed-lives.js';
import { packSegments } from './packed-segments.js';
import type { ColumnName, RecordingHeader } from './recording-header.js';
import { StackBook } from './stack-book.js';
import { timePoints } from './time-points.js';

/** What a page knows of a recording, before it is packed. */
export interface SnapshotPageData {
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
const parts = 4000;
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
  const allocated = new Float64Array(parts);
  const { length } = device.events;
  rebuildHistory(snapshot, device, (index, _row, now) => {
    const part = Math.min(parts - 1, Math.floor((index / length) * parts));
    if (now > (allocated[part] ?? 0)) allocated[part] = now;
  });
  return allocated;
}
