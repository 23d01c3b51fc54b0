import { heldAt, joined } from '../history/held-segments.js';
import type { Lives } from '../history/lives.js';
import type { DeviceSnapshot, Names } from '../snapshot.js';

/** A stretch of memory of the allocator at an instant, with the free gaps in it. */
export interface Stretch {
  readonly offset: number;
  readonly bytes: number;
  readonly stream: number;
  readonly type: 'small' | 'large';
  readonly usedBytes: number;
  readonly gaps: readonly number[];
}

/** The memory as it lay after the event `index`. */
export function layoutAt(
  device: DeviceSnapshot,
  lives: Lives,
  names: Names,
  index: number,
): Stretch[] {
  const { segments, pages } = heldAt(device, names, index);
  const held = [...segments.values(), ...joined(pages)].toSorted((a, b) => a.offset - b.offset);
  const blocks = blocksAt(lives, names, index);
  let next = 0;
  return held.map(({ offset, bytes, stream, type }) => {
    const end = offset + bytes;
    const gaps: number[] = [];
    let at = offset;
    let usedBytes = 0;
    while ((blocks[next]?.offset ?? Infinity) < offset) next += 1;
    for (let block = blocks[next]; block && block.offset < end; block = blocks[next]) {
      if (block.offset > at) gaps.push(block.offset - at);
      usedBytes += block.bytes;
      at = block.offset + block.bytes;
      next += 1;
    }
    if (end > at) gaps.push(end - at);
    return { offset, bytes, stream, type, usedBytes, gaps };
  });
}

function blocksAt(lives: Lives, names: Names, index: number) {
  const { born, freed, bytes, address, length } = lives;
  const blocks: { offset: number; bytes: number }[] = [];
  for (let life = 0; life < length; life += 1) {
    const end = freed[life] ?? -1;
    if ((born[life] ?? 0) > index || (end !== -1 && end <= index)) continue;
    blocks.push({ offset: names.offset[address[life] ?? 0] ?? 0, bytes: bytes[life] ?? 0 });
  }
  return blocks.toSorted((a, b) => a.offset - b.offset);
}
