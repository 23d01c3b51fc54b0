import { describe, expect, it } from 'vitest';
import { MiB } from '../../units/bytes.js';
import { madeSnapshot, recorded, recordedNames } from '../made-snapshot-for-tests.js';
import type { DeviceSnapshot, Snapshot } from '../snapshot.js';
import { segmentLives } from './held-segments.js';
import { before, never } from './history.js';

const base = 0x7f0000000000;

function only({ devices }: Snapshot): DeviceSnapshot {
  const [device] = devices;
  if (!device) throw new Error('no device');
  return device;
}

describe('the segments of a recording', () => {
  it.each(recordedNames)('end as the snapshot has them: %s', async (name) => {
    const snapshot = await recorded(name);
    const device = only(snapshot);
    const left = segmentLives(device, snapshot.names)
      .filter(({ freed }) => freed === never)
      .map(({ offset, bytes }) => [offset, bytes])
      .toSorted(([a = 0], [b = 0]) => a - b);
    const now = device.segments
      .map(({ address, totalBytes }) => [snapshot.names.offset[address] ?? 0, totalBytes])
      .toSorted(([a = 0], [b = 0]) => a - b);
    expect(left).toEqual(now);
  });

  it('are there from before, from their event, and until they are returned', () => {
    const later = base + 64 * MiB;
    const snapshot = madeSnapshot(
      [{ address: base, blocks: [{ size: 2 * MiB }] }],
      [
        { action: 'segment_alloc', addr: later, size: 20 * MiB },
        { action: 'segment_free', addr: later, size: 20 * MiB },
      ],
    );
    const lives = segmentLives(only(snapshot), snapshot.names);
    expect(lives).toMatchObject([
      { offset: 0, bytes: 2 * MiB, born: before, freed: never, type: 'small' },
      { offset: 64 * MiB, bytes: 20 * MiB, born: 0, freed: 1, type: 'large' },
    ]);
  });

  it('have one life for each page that is mapped', () => {
    const snapshot = madeSnapshot(
      [{ address: base, expandable: true, blocks: [{ size: 2 * MiB }] }],
      [
        { action: 'segment_map', addr: base, size: 4 * MiB },
        { action: 'segment_unmap', addr: base + 2 * MiB, size: 2 * MiB },
      ],
    );
    const lives = segmentLives(only(snapshot), snapshot.names);
    expect(lives.map(({ offset, born, freed, isPage }) => [offset, born, freed, isPage])).toEqual([
      [0, 0, never, true],
      [2 * MiB, 0, 1, true],
    ]);
  });

  it('end soon where sizes are made up', () => {
    const huge = Array.from({ length: 50 }, () => ({
      action: 'segment_map',
      addr: base,
      size: 2 ** 44,
    }));
    const snapshot = madeSnapshot([{ address: base, blocks: [{ size: 2 * MiB }] }], huge);
    expect(segmentLives(only(snapshot), snapshot.names).length).toBe(2 ** 18);
  });
});
