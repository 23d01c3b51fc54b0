import { blockStep } from '../../estimate/allocator/sizes.js';
import { before, type Lives, never } from '../../snapshot/history/lives.js';
import type { AddressSpace } from './address-space.js';

export interface PackedLives {
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

export interface PackOptions {
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
export function packLives(lives: Lives, options: PackOptions): PackedLives {
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
