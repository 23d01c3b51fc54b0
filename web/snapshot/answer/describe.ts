import { noPlace, type Recording, unitBytes } from '../data/recording.js';

/** One allocation, in what a person asks about it. */
export interface LifeFacts {
  readonly life: number;
  readonly bytes: number;
  readonly stack: number;
  readonly title: string;
  readonly address: string;
  /** Ticks; undefined: before the recording began, or not freed. */
  readonly born: number | undefined;
  readonly freed: number | undefined;
  /** Seconds after the start; undefined also where the recording has no times. */
  readonly bornSeconds: number | undefined;
  readonly freedSeconds: number | undefined;
}

export function describeLife(recording: Recording, life: number): LifeFacts {
  const { header, from, to, units, stack, place, time } = recording;
  const [start, end] = [from[life] ?? 0, to[life] ?? 0];
  const born = start === 0 ? undefined : start;
  const freed = end === header.ticks ? undefined : end;
  const seconds = (tick: number | undefined) =>
    tick === undefined || !time.known ? undefined : time.secondsAt(tick);
  const own = stack[life] ?? 0;
  return {
    life,
    bytes: (units[life] ?? 0) * unitBytes,
    stack: own,
    title: header.titles[own] ?? '',
    address: addressOf(recording, place[life] ?? noPlace),
    born,
    freed,
    bornSeconds: seconds(born),
    freedSeconds: seconds(freed),
  };
}

/** The address of a place; the place counts in units. */
export function addressOf({ header }: Recording, place: number): string {
  if (place === noPlace) return 'unknown';
  let [start, address] = header.regions[0] ?? [0, '0x0'];
  for (const [from, base] of header.regions) {
    if (from > place) break;
    [start, address] = [from, base];
  }
  return `0x${(BigInt(address) + BigInt(place - start) * BigInt(unitBytes)).toString(16)}`;
}
