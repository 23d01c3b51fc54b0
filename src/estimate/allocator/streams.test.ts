import { describe, expect, it } from 'vitest';
import { MiB } from '../../units/bytes.js';
import { replay } from '../trace/event-replay.js';
import { EventStreamBuilder } from '../trace/event-stream.js';
import { AwaitedFrees, createAllocator } from './caching-allocator.js';

function block(answer: unknown): number {
  if (typeof answer !== 'number') throw new Error('out of memory');
  return answer;
}

describe('several streams', () => {
  it('do not share what is cached', () => {
    const allocator = createAllocator();
    allocator.free(block(allocator.malloc(30 * MiB, 1)));
    allocator.malloc(30 * MiB, 2);
    expect(allocator.stats().reservedBytes).toBe(60 * MiB);
    allocator.malloc(30 * MiB, 1);
    expect(allocator.stats().reservedBytes).toBe(60 * MiB);
  });

  it('keep a block that another stream uses until the host has waited', () => {
    const allocator = createAllocator({ streamWork: 'awaited' });
    const first = block(allocator.malloc(30 * MiB));
    allocator.use(first);
    allocator.free(first);
    expect(allocator.stats().allocatedBytes).toBe(0);
    allocator.malloc(30 * MiB);
    expect(allocator.stats().reservedBytes).toBe(60 * MiB);
    allocator.finish(1);
    allocator.malloc(30 * MiB);
    expect(allocator.stats().reservedBytes).toBe(60 * MiB);
  });

  it('give such a block back at once where their work is short', () => {
    const allocator = createAllocator();
    const first = block(allocator.malloc(30 * MiB));
    allocator.use(first);
    allocator.free(first);
    allocator.malloc(30 * MiB);
    expect(allocator.stats().reservedBytes).toBe(30 * MiB);
  });

  it('are waited for before memory runs out', () => {
    const allocator = createAllocator({ streamWork: 'awaited', allowedBytes: 40 * MiB });
    const first = block(allocator.malloc(30 * MiB, 1));
    allocator.use(first);
    allocator.free(first);
    expect(allocator.malloc(30 * MiB, 2)).toBeTypeOf('number');
    expect(allocator.stats()).toMatchObject({ reservedBytes: 30 * MiB, retries: 1 });
  });

  it('refuse a block that is not live', () => {
    const allocator = createAllocator();
    const first = block(allocator.malloc(1));
    allocator.free(first);
    expect(() => allocator.use(first)).toThrow('is not allocated');
  });

  it('are told apart in a recorded job, with the waits of the host', () => {
    const builder = new EventStreamBuilder();
    const first = builder.alloc(30 * MiB, 1);
    builder.use(first);
    builder.free(first);
    const second = builder.alloc(30 * MiB, 1);
    builder.wait(1);
    builder.free(second);
    builder.alloc(30 * MiB, 2);
    const stream = builder.finish();
    expect(replay(stream).peakReservedBytes).toBe(60 * MiB);
    expect(replay(stream, { streamWork: 'awaited' }).peakReservedBytes).toBe(90 * MiB);
  });
});

describe('AwaitedFrees', () => {
  it('gives out as many as are done, in their order, and no more than there are', () => {
    const awaited = new AwaitedFrees();
    for (const handle of [5, 3, 8]) awaited.use(handle);
    expect([5, 4, 3, 8, 8].map((handle) => awaited.takes(handle))).toEqual([
      true,
      false,
      true,
      true,
      false,
    ]);
    expect([...awaited.finish(1)]).toEqual([5]);
    expect([...awaited.finish(1)]).toEqual([]);
    const copy = new AwaitedFrees(awaited);
    for (const one of [awaited, copy]) {
      expect([...one.finish(9)]).toEqual([3, 8]);
      one.use(6);
      expect(one.takes(6)).toBe(true);
      expect([...one.finish(3)]).toEqual([]);
      expect([...one.finish(4)]).toEqual([6]);
    }
  });
});
