import type { RecordingHeader } from '../../../src/report/recording-header.js';
import { TimeAxis } from './time-axis.js';
import type { Unpacked } from './unpack.js';

/** Bytes of a unit: the allocator's smallest step. */
export const unitBytes = 512;
/** A place of no region, as the page's data have it. */
export const noPlace = 2 ** 32 - 1;
/** Stacks with a colour of their own. */
const shownStacks = 22;

/** A recording as the page looks into it. Allocations are numbered in the order they were made. */
export interface Recording {
  readonly header: RecordingHeader;
  readonly count: number;
  readonly from: Uint32Array;
  /** The tick of its free; `header.ticks` where it was never freed. */
  readonly to: Uint32Array;
  readonly units: Uint32Array;
  readonly stack: Uint16Array;
  readonly place: Uint32Array;
  /** Freed, but in use by a stream until that tick. */
  readonly pending: ReadonlyMap<number, number>;
  /** Allocations in the order of their frees, and the longest-lived first. */
  readonly byEnd: Uint32Array;
  readonly byLifetime: Uint32Array;
  /** Units allocated at each tick. */
  readonly level: Float64Array;
  readonly segments: Segments;
  /** The exact level in even parts, where allocations are left out. */
  readonly exact: Float64Array;
  readonly time: TimeAxis;
  readonly stacks: ShownStacks;
}

export interface Segments {
  readonly born: Uint32Array;
  readonly end: Uint32Array;
  readonly place: Uint32Array;
  readonly units: Uint32Array;
  readonly kind: Uint16Array;
}

export interface ShownStacks {
  /** Those that have a colour, from the bottom of the chart up: what is steady lies below. */
  readonly order: readonly number[];
  /** The most that each of `order` held, in bytes. */
  readonly peakBytes: readonly number[];
  /** Place in `order` of each stack; -1: drawn with the rest. */
  readonly placeOf: Int16Array;
}

export function openRecording(data: Unpacked): Recording {
  const { header } = data;
  const [born, span] = [data.u32('born'), data.u32('span')];
  const count = born.length;
  const from = new Uint32Array(count);
  const to = new Uint32Array(count);
  let tick = 0;
  for (let life = 0; life < count; life += 1) {
    tick += born[life] ?? 0;
    from[life] = tick;
    to[life] = tick + (span[life] ?? 0);
  }
  const [units, stack] = [data.u32('units'), data.u16('stack')];
  const until = data.u32('pendingUntil');
  const lives = { count, from, to, units, stack, byEnd: sorted(to) };
  return {
    ...lives,
    header,
    place: data.u32('place'),
    pending: new Map(Array.from(data.u32('pendingLife'), (life, at) => [life, until[at] ?? 0])),
    byLifetime: sorted(span).toReversed(),
    level: levels(lives, header.ticks),
    segments: {
      born: data.u32('segmentBorn'),
      end: data.u32('segmentEnd'),
      place: data.u32('segmentPlace'),
      units: data.u32('segmentUnits'),
      kind: data.u16('segmentKind'),
    },
    exact: data.f64('allocated'),
    time: new TimeAxis(data.u32('timeTick'), data.f64('timeSecond')),
    stacks: shown(lives, header),
  };
}

type Lives = Pick<Recording, 'count' | 'from' | 'to' | 'units' | 'stack' | 'byEnd'>;

/** Numbers of the values, the smallest value first. Sorted as one number each: far faster. */
function sorted(values: Uint32Array): Uint32Array {
  const room = 2 ** 21;
  const keys = Float64Array.from(values, (value, at) => value * room + at).toSorted();
  return Uint32Array.from(keys, (key) => key % room);
}

function levels({ count, from, to, units }: Lives, ticks: number): Float64Array {
  const level = new Float64Array(ticks + 1);
  const add = (tick: number, by: number) => {
    level[tick] = (level[tick] ?? 0) + by;
  };
  for (let life = 0; life < count; life += 1) {
    add(from[life] ?? 0, units[life] ?? 0);
    add(to[life] ?? 0, -(units[life] ?? 0));
  }
  for (let tick = 1; tick <= ticks; tick += 1) add(tick, level[tick - 1] ?? 0);
  return level;
}

/** The stacks that held the most, those whose memory changes least at the bottom. */
function shown(lives: Lives, { stacks, ticks }: RecordingHeader): ShownStacks {
  const { count, from, to, units, stack, byEnd } = lives;
  const live = new Float64Array(stacks.length);
  const most = new Float64Array(stacks.length);
  const sum = new Float64Array(stacks.length);
  let ended = 0;
  for (let life = 0; life < count; life += 1) {
    const [began, size, own] = [from[life] ?? 0, units[life] ?? 0, stack[life] ?? 0];
    for (; ended < count && (to[byEnd[ended] ?? 0] ?? 0) <= began; ended += 1) {
      const gone = byEnd[ended] ?? 0;
      const its = stack[gone] ?? 0;
      live[its] = (live[its] ?? 0) - (units[gone] ?? 0);
    }
    live[own] = (live[own] ?? 0) + size;
    most[own] = Math.max(most[own] ?? 0, live[own] ?? 0);
    sum[own] = (sum[own] ?? 0) + size * ((to[life] ?? 0) - began);
  }
  const steadiness = (one: number) => (sum[one] ?? 0) / ticks / (most[one] || 1);
  const order = Array.from(most.keys())
    .filter((one) => (most[one] ?? 0) > 0)
    .toSorted((a, b) => (most[b] ?? 0) - (most[a] ?? 0))
    .slice(0, shownStacks)
    .toSorted((a, b) => steadiness(b) - steadiness(a));
  const placeOf = new Int16Array(stacks.length).fill(-1);
  order.forEach((one, place) => {
    placeOf[one] = place;
  });
  return { order, peakBytes: order.map((one) => (most[one] ?? 0) * unitBytes), placeOf };
}
