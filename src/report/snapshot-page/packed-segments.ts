import { blockStep } from '../../estimate/allocator/sizes.js';
import { before, never } from '../../snapshot/history/lives.js';
import type { SegmentLife } from '../../snapshot/history/segment-lives.js';
import type { DeviceSnapshot, Names } from '../../snapshot/snapshot.js';
import type { AddressSpace } from './address-space.js';
import type { SegmentKind } from './recording-header.js';

export interface PackedSegments {
  readonly kinds: readonly SegmentKind[];
  readonly segmentBorn: Uint32Array;
  readonly segmentEnd: Uint32Array;
  readonly segmentPlace: Uint32Array;
  readonly segmentUnits: Uint32Array;
  readonly segmentKind: Uint16Array;
}

/** The segments of a recording in the columns of a page. */
export function packSegments(
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
