import { describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { GiB, MiB } from '../../units/bytes.js';
import { type CachingAllocator, createAllocator } from '../allocator/caching-allocator.js';
import { replay } from './event-replay.js';
import { type EventStream, EventStreamBuilder, eventKind } from './event-stream.js';
import { recordedRuns } from './traces-for-tests.js';

/** Replays the first events of a stream by hand; gives each change of what is reserved. */
function segmentsTaken(stream: EventStream, allocator: CachingAllocator, end: number): number[] {
  const handles = new Map<number, number>();
  const taken: number[] = [];
  for (let at = 0; at < end; at += 1) {
    const slot = stream.slot[at] ?? -1;
    const before = allocator.memory.reservedBytes;
    switch (stream.kind[at] ?? -1) {
      case eventKind.alloc: {
        const handle = allocator.malloc(stream.bytes[at] ?? 0);
        if (typeof handle !== 'number') throw new Error(`out of memory at event ${at}`);
        handles.set(slot, handle);
        break;
      }
      case eventKind.free:
        allocator.free(handles.get(slot) ?? -1);
        break;
      case eventKind.emptyCache:
        allocator.emptyCache();
        break;
      case eventKind.takeAddresses:
        allocator.takeAddresses(stream.bytes[at] ?? 0);
        break;
      default:
    }
    const change = allocator.memory.reservedBytes - before;
    if (change !== 0) taken.push(change);
  }
  return taken;
}

describe('replay of what a real GPU was asked for', () => {
  const runs = recordedRuns('known');

  it('covers all recorded cases', () => {
    expect(runs).toHaveLength(23);
  });

  it.each(runs)('$id: both peaks to the byte', (run) => {
    const { peakAllocatedBytes, peakReservedBytes } = run;
    expect(replay(run.stream)).toMatchObject({ peakAllocatedBytes, peakReservedBytes });
  });

  it.each(runs)('$id: the same segments in the same order', ({ stream, segments }) => {
    const [first, ...taken] = segmentsTaken(stream, createAllocator(), stream.length);
    // The first one was there before the recording.
    expect(first).toBe(2 * MiB);
    const given = (list: readonly number[]) =>
      list.filter((bytes) => bytes < 0).reduce((sum, bytes) => sum + bytes, 0);
    expect(taken.filter((bytes) => bytes > 0)).toEqual(segments.filter((bytes) => bytes > 0));
    expect(given(taken)).toBe(given(segments));
  });

  it('depends on where the driver puts segments: in plainly falling order one peak is off', () => {
    const off = runs.filter(
      ({ stream, peakReservedBytes }) =>
        replay(stream, { addresses: 'falling' }).peakReservedBytes !== peakReservedBytes,
    );
    expect(off.map(({ id }) => id)).toEqual(['efficientnet_b4/train/b32/s224/amp-bf16/adamw']);
  });
});

describe('replay of memory snapshots', () => {
  const runs = recordedRuns('snapshots');

  it.each(runs)('$id: both peaks to the byte', (run) => {
    const { peakAllocatedBytes, peakReservedBytes } = run;
    expect(replay(run.stream)).toMatchObject({ peakAllocatedBytes, peakReservedBytes });
  });

  it('runs out of memory under the same cap at the same request', () => {
    const run = runs.find(({ id }) => id === 'oom');
    const [refused] = run?.refused ?? [];
    if (run === undefined || refused === undefined) throw new Error('no refused request');
    const allocator = createAllocator({ allowedBytes: 4 * GiB });
    segmentsTaken(run.stream, allocator, refused.at);
    expect(allocator.malloc(refused.bytes)).toMatchObject({
      kind: 'out-of-memory',
      askedBytes: refused.bytes,
      reservedBytes: run.peakReservedBytes,
    });
    expect(allocator.retries).toBe(1);
  });
});

describe('replay', () => {
  it('tells when the peaks were, after the last reset', () => {
    const builder = new EventStreamBuilder();
    builder.free(builder.alloc(50 * MiB));
    builder.emptyCache();
    builder.resetPeaks();
    builder.alloc(10 * MiB);
    const peak = builder.alloc(30 * MiB);
    builder.free(peak);
    builder.alloc(20 * MiB);
    expect(replay(builder.finish())).toMatchObject({
      peakAllocatedBytes: 40 * MiB,
      peakReservedBytes: 40 * MiB,
      peakAllocatedAt: 5,
      peakReservedAt: 5,
    });
  });

  it('has the addresses of a fresh process until the first kernel runs', () => {
    const places = (settings = {}) => {
      const builder = new EventStreamBuilder();
      builder.alloc(1);
      builder.alloc(274 * MiB);
      builder.firstKernel();
      builder.alloc(86 * MiB);
      const { allocator } = replay(builder.finish(), settings);
      return allocator.segments().map(({ bytes }) => bytes / MiB);
    };
    // The weights from before the first kernel lie below what comes after it.
    expect(places()).toEqual([274, 86, 2]);
    expect(places({ addresses: 'falling' })).toEqual([86, 274, 2]);
  });

  it('stops at the request that does not fit', () => {
    const builder = new EventStreamBuilder();
    builder.alloc(10 * MiB);
    builder.alloc(30 * MiB);
    const { outOfMemory, peakReservedBytes } = replay(builder.finish(), { allowedBytes: 30 * MiB });
    expect(outOfMemory).toMatchObject({ at: 1, askedBytes: 30 * MiB, freeBytes: 20 * MiB });
    expect(peakReservedBytes).toBe(10 * MiB);
  });

  it('refuses a second free', () => {
    const builder = new EventStreamBuilder();
    const slot = builder.alloc(1);
    builder.free(slot);
    builder.free(slot);
    expect(() => replay(builder.finish())).toThrow(Failure);
  });
});
