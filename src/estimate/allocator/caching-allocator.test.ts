import { describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { KiB, MiB } from '../../units/bytes.js';
import { type CachingAllocator, createAllocator } from './caching-allocator.js';

function block(answer: ReturnType<CachingAllocator['malloc']>): number {
  if (typeof answer !== 'number') throw new Error('out of memory');
  return answer;
}

describe('createAllocator', () => {
  it('packs small requests into 2 MiB and shares 20 MiB between middling ones', () => {
    const allocator = createAllocator();
    allocator.malloc(1);
    expect(allocator.stats()).toMatchObject({ allocatedBytes: 512, reservedBytes: 2 * MiB });
    allocator.malloc(MiB + 1);
    allocator.malloc(9 * MiB);
    expect(allocator.stats()).toMatchObject({ reservedBytes: 22 * MiB, segments: 2 });
    allocator.malloc(11 * MiB + 1);
    expect(allocator.stats()).toMatchObject({ reservedBytes: 34 * MiB, segments: 3 });
  });

  it('shares segments of another size, and maps pages of it, when told to', () => {
    const reserved = (expandableSegments: boolean) => {
      const allocator = createAllocator({ largeSegmentBytes: 12 * MiB, expandableSegments });
      for (const size of [9, 2, 5]) allocator.malloc(size * MiB);
      allocator.malloc(13 * MiB);
      return allocator.stats().reservedBytes / MiB;
    };
    expect(reserved(false)).toBe(12 + 12 + 14);
    expect(reserved(true)).toBe(36);
  });

  it('counts what it does not split off as allocated', () => {
    const allocator = createAllocator();
    allocator.malloc(11 * MiB);
    expect(allocator.stats().allocatedBytes).toBe(12 * MiB);
  });

  it('joins free neighbours, and keeps what was freed', () => {
    const allocator = createAllocator();
    const parts = [1, 2, 3, 4].map((size) => block(allocator.malloc(size * MiB + 512)));
    for (const part of [0, 2, 1, 3]) allocator.free(parts[part] ?? -1);
    expect(allocator.segments().map(({ blocks }) => blocks.length)).toEqual([1]);
    expect(allocator.stats()).toMatchObject({ allocatedBytes: 0, reservedBytes: 20 * MiB });
    allocator.emptyCache();
    expect(allocator.stats()).toMatchObject({ reservedBytes: 0, segments: 0 });
    expect(allocator.stats().peakReservedBytes).toBe(20 * MiB);
  });

  it('releases cached segments before it gives up, and then says what was missing', () => {
    const allocator = createAllocator({ allowedBytes: 100 * MiB });
    allocator.free(block(allocator.malloc(60 * MiB)));
    const held = allocator.malloc(70 * MiB);
    expect(held).toBeTypeOf('number');
    expect(allocator.stats().retries).toBe(1);
    expect(allocator.malloc(40 * MiB)).toEqual({
      kind: 'out-of-memory',
      askedBytes: 40 * MiB,
      segmentBytes: 40 * MiB,
      freeBytes: 30 * MiB,
      allocatedBytes: 70 * MiB,
      reservedBytes: 70 * MiB,
    });
  });

  it('does not lend a block of one stream to another', () => {
    const allocator = createAllocator();
    allocator.free(block(allocator.malloc(KiB, 1)));
    allocator.malloc(KiB, 2);
    expect(allocator.stats().reservedBytes).toBe(4 * MiB);
  });

  it('keeps the pool of a CUDA graph until the graph is gone', () => {
    const allocator = createAllocator();
    allocator.free(block(allocator.malloc(30 * MiB, 0, 7)));
    allocator.emptyCache();
    expect(allocator.stats().reservedBytes).toBe(30 * MiB);
    allocator.releaseOwner(7);
    allocator.emptyCache();
    expect(allocator.stats().reservedBytes).toBe(0);
  });

  it('leaves blocks from max_split_size on whole', () => {
    const allocator = createAllocator({ maxSplitBytes: 64 * MiB });
    allocator.free(block(allocator.malloc(100 * MiB)));
    allocator.malloc(30 * MiB);
    expect(allocator.stats().reservedBytes).toBe(130 * MiB);
    allocator.malloc(90 * MiB);
    expect(allocator.stats()).toMatchObject({
      reservedBytes: 130 * MiB,
      allocatedBytes: 130 * MiB,
    });
  });

  it('releases several oversize blocks before everything, but no smaller ones', () => {
    const afterLarge = (...mebibytes: number[]) => {
      const allocator = createAllocator({ maxSplitBytes: 20 * MiB, allowedBytes: 84 * MiB });
      const held = mebibytes.map((count) => block(allocator.malloc(count * MiB)));
      for (const handle of held) allocator.free(handle);
      allocator.malloc(60 * MiB);
      return allocator.stats();
    };
    expect(afterLarge(14, 30, 40)).toMatchObject({ reservedBytes: 74 * MiB, retries: 0 });
    expect(afterLarge(14, 14, 40)).toMatchObject({ reservedBytes: 60 * MiB, retries: 1 });
  });

  it('collects segments that lay unused longest, once too much is reserved', () => {
    const allocator = createAllocator({
      garbageCollectionThreshold: 0.5,
      allowedBytes: 100 * MiB,
    });
    const [old, used] = [block(allocator.malloc(30 * MiB)), block(allocator.malloc(40 * MiB))];
    allocator.free(old);
    allocator.free(used);
    allocator.free(block(allocator.malloc(40 * MiB)));
    allocator.malloc(44 * MiB);
    const left = allocator.segments().map(({ bytes }) => bytes / MiB);
    expect(left.toSorted((a, b) => a - b)).toEqual([40, 44]);
    expect(allocator.retries).toBe(0);
  });

  it('grows an expandable segment instead of adding one', () => {
    const allocator = createAllocator({ expandableSegments: true });
    const first = block(allocator.malloc(30 * MiB));
    allocator.malloc(30 * MiB);
    expect(allocator.stats()).toMatchObject({ reservedBytes: 60 * MiB, segments: 1 });
    allocator.free(first);
    allocator.emptyCache();
    // Of the first 30 MiB one page is whole.
    expect(allocator.stats().reservedBytes).toBe(40 * MiB);
  });

  it('refuses what no program can ask', () => {
    const allocator = createAllocator();
    for (const bytes of [0, -1, Number.NaN, Infinity]) {
      expect(() => allocator.malloc(bytes)).toThrow(Failure);
    }
    const handle = block(allocator.malloc(1));
    allocator.free(handle);
    expect(() => allocator.free(handle)).toThrow(Failure);
    expect(() => allocator.free(12345)).toThrow(Failure);
    expect(() => createAllocator({ maxSplitBytes: 1 })).toThrow(Failure);
  });
});

describe('cached segments under max_split_size_mb', () => {
  it.each([
    ['of that size are given back until there is room', 20, 70, [20, 30]],
    ['that are smaller are given back together', 12, 60, [30]],
  ])('%s', (_, segmentMiB, allowedMiB, reserved) => {
    const allocator = createAllocator({
      maxSplitBytes: 20 * MiB,
      allowedBytes: allowedMiB * MiB,
    });
    const count = Math.floor(60 / segmentMiB);
    const blocks = Array.from({ length: count }, () => allocator.malloc(segmentMiB * MiB));
    for (const held of blocks) if (typeof held === 'number') allocator.free(held);
    expect(allocator.malloc(30 * MiB)).toBeTypeOf('number');
    expect(allocator.segments().map(({ bytes }) => bytes / MiB)).toEqual(
      expect.arrayContaining(reserved),
    );
    expect(allocator.stats().segments).toBe(reserved.length);
  });
});
