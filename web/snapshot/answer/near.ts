import { type Recording, unitBytes } from '../data/recording.js';

/** Something that happened at a tick. */
export interface NearEvent {
  readonly tick: number;
  readonly kind:
    | 'allocated'
    | 'freed'
    | 'completed'
    | 'returned'
    | 'segment'
    | 'segment-returned'
    | 'oom'
    | 'other';
  readonly bytes: number | undefined;
  /** The allocation, where it is one. */
  readonly life: number | undefined;
  readonly title: string;
}

/** Returns the events at each tick from `from` to `to`, both included. */
export function eventsBetween(recording: Recording, from: number, to: number): NearEvent[] {
  const found: NearEvent[] = [];
  const first = Math.max(1, from);
  const last = Math.min(recording.header.ticks - 1, to);
  for (let tick = first; tick <= last; tick += 1) found.push(...eventsAt(recording, tick));
  return found;
}

function eventsAt(recording: Recording, tick: number): NearEvent[] {
  const { header, from, to, units, stack, byEnd, pending, segments } = recording;
  const ofLife = (life: number, kind: NearEvent['kind']): NearEvent => ({
    tick,
    kind,
    bytes: (units[life] ?? 0) * unitBytes,
    life,
    title: header.titles[stack[life] ?? 0] ?? '',
  });
  const ofSegment = (at: number, kind: NearEvent['kind']): NearEvent => ({
    tick,
    kind,
    bytes: (segments.units[at] ?? 0) * unitBytes,
    life: undefined,
    title: header.kinds[segments.kind[at] ?? 0]?.words ?? '',
  });
  const ended = livesWith(tick, byEnd.length, (at) => to[byEnd[at] ?? 0] ?? 0).map(
    (at) => byEnd[at] ?? 0,
  );
  const found = [
    ...[...segments.born.keys()]
      .filter((at) => segments.born[at] === tick)
      .map((at) => ofSegment(at, 'segment')),
    ...livesWith(tick, from.length, (at) => from[at] ?? 0).map((life) => ofLife(life, 'allocated')),
    ...ended.map((life) => ofLife(life, 'freed')),
    ...[...pending].filter(([, until]) => until === tick).map(([life]) => ofLife(life, 'returned')),
    ...[...segments.end.keys()]
      .filter((at) => segments.end[at] === tick)
      .map((at) => ofSegment(at, 'segment-returned')),
  ];
  const nothing = { tick, bytes: undefined, life: undefined, title: '' };
  if (header.marks.outOfMemory.includes(tick)) found.push({ ...nothing, kind: 'oom' });
  if (found.length > 0) return found;
  // A free has two events: it is asked for, and it is done. Most are done by the next event.
  const isDone = header.omitted === 0 || freedBefore(recording, tick);
  return [{ ...nothing, kind: isDone ? 'completed' : 'other' }];
}

/** The event before was a free. */
function freedBefore({ byEnd, to }: Recording, tick: number): boolean {
  return livesWith(tick - 1, byEnd.length, (at) => to[byEnd[at] ?? 0] ?? 0).length > 0;
}

/** The places of a sorted list that have this value. */
function livesWith(tick: number, length: number, valueAt: (at: number) => number): number[] {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (valueAt(middle) < tick) low = middle + 1;
    else high = middle;
  }
  const found: number[] = [];
  for (; low < length && valueAt(low) === tick; low += 1) found.push(low);
  return found;
}
