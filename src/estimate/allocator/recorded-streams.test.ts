import { describe, expect, it } from 'vitest';
import { parseAllocConf } from './alloc-conf.js';
import { createAllocator } from './caching-allocator.js';
import { type RecordedStreams, recordedStreams } from './recorded-sequences-for-tests.js';
import { allowedBytesOf } from './settings.js';

/** Allocated and reserved after each step. */
function simulated({ conf, capFraction, totalBytes, steps }: RecordedStreams): string[] {
  const allocator = createAllocator({
    ...parseAllocConf(conf).settings,
    addresses: 'fresh-driver',
    streamWork: 'awaited',
    allowedBytes: capFraction === null ? 'unlimited' : allowedBytesOf(capFraction, totalBytes),
    deviceTotalBytes: totalBytes,
  });
  const live = new Map<number, number>();
  const users = new Map<number, Set<number>>();
  // With each use a kernel that sleeps begins on that stream; the host's wait ends them all.
  const busy = new Set<number>();
  return steps.map(([what, id, bytes, stream]) => {
    const handle = live.get(id);
    if (what === 4) {
      allocator.finish();
      busy.clear();
    } else if (what === 3) {
      users.set(id, (users.get(id) ?? new Set()).add(stream));
      busy.add(stream);
    } else if (what === 0 && handle !== undefined) {
      if ([...(users.get(id) ?? [])].some((one) => busy.has(one))) allocator.use(handle);
      allocator.free(handle);
      live.delete(id);
    } else {
      const answer = allocator.malloc(bytes, stream);
      if (typeof answer === 'number') live.set(id, answer);
    }
    return `${allocator.allocatedBytes} ${allocator.memory.reservedBytes}`;
  });
}

describe('random requests of several streams to a real allocator', () => {
  const sequences = recordedStreams();

  it('are of three settings, each without a cap and under one, with blocks that others use', () => {
    expect(sequences).toHaveLength(6);
    expect(new Set(sequences.map(({ conf }) => conf)).size).toBe(3);
    const uses = sequences.map(({ steps }) => steps.filter(([what]) => what === 3).length);
    expect(Math.min(...uses)).toBeGreaterThan(100);
  });

  it.each(sequences)('conf "$conf", cap $capBytes: the same bytes after every step', (sequence) => {
    const real = sequence.steps.map(([, , , , allocated, reserved]) => `${allocated} ${reserved}`);
    const ours = simulated(sequence);
    expect(ours.flatMap((held, at) => (held === real[at] ? [] : [at])).slice(0, 3)).toEqual([]);
  });
});
