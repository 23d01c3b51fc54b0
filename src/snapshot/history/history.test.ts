import { describe, expect, it } from 'vitest';
import {
  madeSnapshot,
  recorded,
  recordedNames,
  recordedTruth,
} from '../made-snapshot-for-tests.js';
import type { DeviceSnapshot, Snapshot } from '../snapshot.js';
import { never, rebuildHistory } from './history.js';

const MiB = 1024 ** 2;
const base = 0x7f0000000000;

function only(snapshot: Snapshot): DeviceSnapshot {
  const [device] = snapshot.devices;
  if (!device) throw new Error('no device');
  return device;
}

/** The same recording with its oldest events overwritten. */
function withoutOldest(device: DeviceSnapshot, count: number): DeviceSnapshot {
  const { events } = device;
  return {
    ...device,
    events: { ...events, first: events.first + count, length: events.length - count },
  };
}

describe.each(recordedNames)('the history of %s', (name) => {
  it('has the peak of the process, to the byte, and ends where the segments are', async () => {
    const snapshot = await recorded(name);
    const history = rebuildHistory(snapshot, only(snapshot));
    expect(history.peakAllocated.allocatedBytes).toBe(recordedTruth[name].peakAllocatedBytes);
    expect(history.peakReserved.reservedBytes).toBe(recordedTruth[name].reservedBytes);
    expect(history.end).toMatchObject({
      allocatedBytes: recordedTruth[name].allocatedBytes,
      reservedBytes: recordedTruth[name].reservedBytes,
    });
    expect(history.driftBytes).toBe(0);
    expect(history.outOfMemory).toHaveLength(recordedTruth[name].outOfMemory);
  });

  it('finds for every block that is left the size that it has', async () => {
    const snapshot = await recorded(name);
    const device = only(snapshot);
    const { lives } = rebuildHistory(snapshot, device);
    const left = new Map<number, number>();
    for (let life = 0; life < lives.length; life += 1) {
      if (lives.freed[life] === never) left.set(lives.address[life] ?? -1, lives.bytes[life] ?? 0);
    }
    const blocks = device.segments
      .flatMap((segment) => segment.blocks)
      .filter(({ state }) => state !== 'inactive');
    expect(left).toEqual(new Map(blocks.map(({ address, bytes }) => [address, bytes])));
  });

  it('comes to the same levels when the ring has lost its beginning', async () => {
    const snapshot = await recorded(name);
    const device = only(snapshot);
    const levels: number[] = [];
    rebuildHistory(snapshot, device, (_, __, allocated) => levels.push(allocated));
    for (const share of [0.1, 0.5, 0.9]) {
      const lost = Math.floor(device.events.length * share);
      const history = rebuildHistory(snapshot, withoutOldest(device, lost));
      expect(history.driftBytes).toBe(0);
      const peak = levels.slice(lost).reduce((most, level) => Math.max(most, level), 0);
      // A block freed in the recording and allocated before it may have had a rest of up to 1 MiB.
      const doubtful = 2 * MiB * 20;
      expect(Math.abs(history.peakAllocated.allocatedBytes - peak)).toBeLessThan(doubtful);
      expect(history.end.reservedBytes).toBe(recordedTruth[name].reservedBytes);
    }
  });
});

describe('rebuilding a history', () => {
  it('counts a block as allocated until its free is asked for, and as active until it is done', () => {
    const addr = base;
    const snapshot = madeSnapshot(
      [{ address: base, blocks: [{ size: 2 * MiB, state: 'inactive' }] }],
      [
        { action: 'segment_alloc', addr, size: 2 * MiB },
        { action: 'alloc', addr, size: 1000 },
        { action: 'free_requested', addr, size: 1000 },
        { action: 'free_completed', addr, size: 1000 },
      ],
    );
    const levels: number[][] = [];
    rebuildHistory(snapshot, only(snapshot), (_, __, ...level) => levels.push(level));
    expect(levels).toEqual([
      [0, 0, 2 * MiB],
      [1024, 1024, 2 * MiB],
      [0, 1024, 2 * MiB],
      [0, 0, 2 * MiB],
    ]);
  });

  it('takes what is freed without having been allocated for something from before', () => {
    const snapshot = madeSnapshot(
      [{ address: base, blocks: [{ size: 2 * MiB, state: 'inactive' }] }],
      [
        { action: 'free_requested', addr: base, size: 4096 },
        { action: 'free_completed', addr: base, size: 4096 },
      ],
    );
    const { start, end } = rebuildHistory(snapshot, only(snapshot));
    expect([start.allocatedBytes, end.allocatedBytes]).toEqual([4096, 0]);
    expect(start.reservedBytes).toBe(2 * MiB);
  });

  it('leaves a rest that is too small to be cut off with its block', () => {
    const snapshot = madeSnapshot(
      [{ address: base, blocks: [{ size: 20 * MiB }] }],
      [
        { action: 'segment_alloc', addr: base, size: 20 * MiB },
        { action: 'alloc', addr: base, size: 19.5 * MiB },
      ],
    );
    const { end, driftBytes } = rebuildHistory(snapshot, only(snapshot));
    expect([end.allocatedBytes, driftBytes]).toEqual([20 * MiB, 0]);
  });

  it('goes on when a free is missing, and says by how much the end is off', () => {
    const snapshot = madeSnapshot(
      [{ address: base, blocks: [{ size: 512 }, { size: 2 * MiB - 512, state: 'inactive' }] }],
      [
        { action: 'alloc', addr: base, size: 512 },
        { action: 'alloc', addr: base, size: 512 },
        { action: 'alloc', addr: base + 512, size: 512 },
      ],
    );
    const { end, driftBytes } = rebuildHistory(snapshot, only(snapshot));
    expect([end.allocatedBytes, driftBytes]).toEqual([1024, -512]);
  });
});
