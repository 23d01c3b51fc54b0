import { segmentStep, sharedSegment, smallSegment } from '../../estimate/allocator/sizes.js';
import type { Lives } from '../history/lives.js';
import { action } from '../records/known-strings.js';
import { type DeviceSnapshot, type Names, rowOf } from '../snapshot.js';

/** A stretch of memory of the allocator at an instant, with the free gaps in it. */
export interface Stretch {
  readonly offset: number;
  readonly bytes: number;
  readonly stream: number;
  readonly type: 'small' | 'large';
  readonly usedBytes: number;
  readonly gaps: readonly number[];
}

interface Held {
  readonly offset: number;
  bytes: number;
  readonly stream: number;
  readonly type: Stretch['type'];
}

/** The memory as it lay after the event `index`. */
export function layoutAt(
  device: DeviceSnapshot,
  lives: Lives,
  names: Names,
  index: number,
): Stretch[] {
  const held = heldAt(device, names, index);
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

/** The segments now, with what happened since `index` undone, by address. */
function heldAt(device: DeviceSnapshot, names: Names, index: number): Held[] {
  const { events } = device;
  const segments = new Map<number, Held>();
  const pages = new Map<number, Held>();
  const setPages = (held: Held) => {
    for (let at = held.offset; at < held.offset + held.bytes; at += segmentStep) {
      pages.set(at, { ...held, offset: at, bytes: segmentStep });
    }
  };
  for (const { address, totalBytes: bytes, stream, expandable, type } of device.segments) {
    const offset = names.offset[address] ?? 0;
    const held = { offset, bytes, stream, type: type === 'small' ? type : 'large' } as const;
    if (expandable) setPages(held);
    else segments.set(offset, held);
  }
  for (let at = events.length - 1; at > index; at -= 1) {
    const row = rowOf(events, at);
    const offset = names.offset[events.address[row] ?? -1] ?? 0;
    const bytes = events.bytes[row] ?? 0;
    const stream = events.stream[row] ?? 0;
    switch (events.action[row] ?? action.other) {
      case action.segmentAlloc:
        segments.delete(offset);
        break;
      case action.segmentFree:
        segments.set(offset, {
          offset,
          bytes,
          stream,
          type: bytes === smallSegment ? 'small' : 'large',
        });
        break;
      case action.segmentMap:
        for (let page = offset; page < offset + bytes; page += segmentStep) pages.delete(page);
        break;
      case action.segmentUnmap:
        // Pages for large blocks come in shared segments' size, those for small ones singly.
        setPages({ offset, bytes, stream, type: bytes % sharedSegment === 0 ? 'large' : 'small' });
        break;
      default:
    }
  }
  return [...segments.values(), ...joined(pages)].toSorted((a, b) => a.offset - b.offset);
}

/** Pages that follow one another, as one stretch. */
function joined(pages: ReadonlyMap<number, Held>): Held[] {
  const stretches: Held[] = [];
  for (const page of [...pages.values()].toSorted((a, b) => a.offset - b.offset)) {
    const last = stretches.at(-1);
    const follows = last && last.offset + last.bytes === page.offset;
    if (follows && last.stream === page.stream && last.type === page.type) last.bytes += page.bytes;
    else stretches.push({ ...page });
  }
  return stretches;
}
