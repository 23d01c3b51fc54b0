import type { DeviceSnapshot, Segment } from '../snapshot.js';

/** What the allocator held when the snapshot was taken, in its own terms. */
export interface Figures {
  /** Blocks that tensors use, as the allocator rounds them. */
  readonly allocatedBytes: number;
  /** Segments held from the driver. */
  readonly reservedBytes: number;
  /** Allocated, and freed but still in use by a stream. */
  readonly activeBytes: number;
  /** Free parts of segments that are partly in use: they cannot be given back. */
  readonly inactiveSplitBytes: number;
  /** What the program asked for, before rounding. */
  readonly requestedBytes: number;
}

export function figuresOf(device: DeviceSnapshot): Figures {
  const { segments } = device;
  return {
    allocatedBytes: sum(segments, ({ allocatedBytes }) => allocatedBytes),
    reservedBytes: sum(segments, ({ totalBytes }) => totalBytes),
    activeBytes: sum(segments, ({ activeBytes }) => activeBytes),
    inactiveSplitBytes: sum(segments, inactiveSplit),
    requestedBytes: sum(segments, ({ requestedBytes }) => requestedBytes),
  };
}

/** PyTorch does not count the free parts of expandable segments: they can be given back. */
function inactiveSplit({ expandable, blocks }: Segment): number {
  if (expandable || blocks.length < 2) return 0;
  return sum(
    blocks.filter(({ state }) => state === 'inactive'),
    ({ bytes }) => bytes,
  );
}

function sum<One>(all: readonly One[], value: (one: One) => number): number {
  return all.reduce((total, one) => total + value(one), 0);
}
