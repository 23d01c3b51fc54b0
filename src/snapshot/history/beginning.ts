import { action } from '../records/known-strings.js';
import { type Block, type DeviceSnapshot, type Events, rowOf } from '../snapshot.js';

/** A block or a segment that was there when the recording began. */
export interface Earlier {
  readonly address: number;
  /** Of a block that is still there, as the allocator counts it; else as it was asked for. */
  readonly bytes: number;
  readonly block: Block | undefined;
}

export interface Beginning {
  readonly blocks: readonly Earlier[];
  readonly segments: readonly Earlier[];
}

/**
 * What was there before the first event. The recording is a ring whose beginning may be lost, so
 * this is concluded from its end: what is there now and was not allocated in between, and what was
 * freed without having been allocated.
 */
export function findBeginning(device: DeviceSnapshot, addressCount: number): Beginning {
  const { events } = device;
  const blocks = firstTouched(events, addressCount, 'blocks');
  const segments = firstTouched(events, addressCount, 'segments');
  for (const segment of device.segments) {
    const { address, totalBytes } = segment;
    if (!segment.expandable && segments.seen[address] === 0) {
      segments.earlier.push({ address, bytes: totalBytes, block: undefined });
    }
    for (const block of segment.blocks) {
      if (block.state !== 'inactive' && blocks.seen[block.address] === 0) {
        blocks.earlier.push({ address: block.address, bytes: block.bytes, block });
      }
    }
  }
  return { blocks: blocks.earlier, segments: segments.earlier };
}

/** What is freed before it is allocated was there; what is allocated first was not. */
function firstTouched(events: Events, addressCount: number, what: 'blocks' | 'segments') {
  const seen = new Uint8Array(addressCount);
  const earlier: Earlier[] = [];
  const isBlocks = what === 'blocks';
  for (let index = 0; index < events.length; index += 1) {
    const row = rowOf(events, index);
    const code = events.action[row] ?? 0;
    const begins = code === (isBlocks ? action.alloc : action.segmentAlloc);
    const ends = isBlocks
      ? code === action.freeRequested || code === action.freeCompleted
      : code === action.segmentFree;
    const address = events.address[row] ?? -1;
    if (!(begins || ends) || address < 0 || seen[address] !== 0) continue;
    seen[address] = 1;
    if (ends) earlier.push({ address, bytes: events.bytes[row] ?? 0, block: undefined });
  }
  return { seen, earlier };
}
