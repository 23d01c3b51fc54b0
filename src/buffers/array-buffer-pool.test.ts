import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { eventually } from '../../test/support/made-once.js';
import { Failure } from '../failure.js';
import { ArrayBufferPool, sizeClass } from './array-buffer-pool.js';

/** Collects garbage now. */
function collect(): void {
  setFlagsFromString('--expose-gc');
  const gc: unknown = runInNewContext('gc');
  if (typeof gc === 'function') gc();
}

describe('a pool of ArrayBuffers', () => {
  it('lends the same memory again', () => {
    using pool = new ArrayBufferPool();
    const first = pool.take(5000);
    expect(first.length).toBe(5000);
    first[0] = 7;
    pool.give(first);
    const second = pool.take(4500);
    expect(second.length).toBe(4500);
    expect(second[0]).toBe(7);
    expect(pool.statistics()).toMatchObject({ taken: 2, reused: 1, reuseRate: 0.5, idleBytes: 0 });
    expect(pool.statistics().lentBytes).toBe(second.buffer.byteLength);
  });

  it('makes every view of what was given back empty', () => {
    using pool = new ArrayBufferPool();
    const taken = pool.take(4096);
    const numbers = new Float32Array(taken.buffer);
    pool.give(numbers);
    expect([taken.length, numbers.length, taken.buffer.byteLength]).toEqual([0, 0, 0]);
  });

  it('takes back what is borrowed at the end of a block, once', () => {
    using pool = new ArrayBufferPool();
    {
      using lent = pool.borrow(100);
      lent.bytes.fill(1);
      lent.release();
    }
    expect(pool.statistics()).toMatchObject({ lentBytes: 0, idleBytes: 4096, taken: 1 });
  });

  it('drops what was idle for longest when it reaches its limit', () => {
    using pool = new ArrayBufferPool({ limit: '12KiB' });
    const small = pool.take(4096);
    const large = pool.take(8192);
    pool.give(small);
    pool.give(large);
    expect(pool.statistics()).toMatchObject({ idleBytes: 12_288, released: 0 });
    const middle = pool.take(5000);
    pool.give(middle);
    // 4 KiB and 8 KiB went, in this order, to make place for 5 KiB.
    expect(pool.statistics()).toMatchObject({ idleBytes: 5120, released: 2 });
    pool.give(pool.take(20_000));
    expect(pool.statistics()).toMatchObject({ idleBytes: 0, released: 4 });
  });

  it('keeps nothing after it is disposed', () => {
    const pool = new ArrayBufferPool();
    const late = pool.take(10);
    pool.give(pool.take(10));
    pool[Symbol.dispose]();
    pool.give(late);
    expect(pool.statistics()).toMatchObject({ idleBytes: 0, lentBytes: 0, released: 2 });
  });

  it('counts what was never given back, and what went to another thread', async () => {
    using pool = new ArrayBufferPool();
    const sent = pool.take(4096);
    structuredClone(sent, { transfer: [sent.buffer] });
    pool.give(sent);
    expect(pool.statistics()).toMatchObject({ lost: 1, lentBytes: 0, idleBytes: 0 });
    pool.take(4096);
    await eventually(async () => {
      // Finalizers run in a turn of their own.
      await new Promise((resolve) => setImmediate(resolve));
      collect();
      return pool.statistics().lost === 2 && pool.statistics().lentBytes === 0;
    });
  });

  it.each([
    ['a negative size', (pool: ArrayBufferPool) => pool.take(-1), 'bad-argument'],
    ['half a byte', (pool: ArrayBufferPool) => pool.take(0.5), 'bad-argument'],
    ['more than there is', (pool: ArrayBufferPool) => pool.take(2 ** 52), 'cannot-allocate'],
    ['foreign bytes', (pool: ArrayBufferPool) => pool.give(new Uint8Array(4)), 'bad-argument'],
    ['shared bytes', (pool: ArrayBufferPool) => pool.give(sharedBytes()), 'bad-argument'],
    ['bytes twice', twice, 'bad-argument'],
    ['a bad limit', () => new ArrayBufferPool({ limit: -1 }), 'bad-argument'],
    ['a limit in words', () => new ArrayBufferPool({ limit: 'much' }), 'bad-size'],
  ])('refuses %s and changes nothing', (_, act, code) => {
    using pool = new ArrayBufferPool();
    expect(() => act(pool)).toThrow(expect.objectContaining({ code }));
    expect(() => act(pool)).toThrow(Failure);
    expect(pool.statistics().lentBytes).toBe(0);
  });

  it('never keeps more than its limit, and never lends memory twice at a time', () => {
    const sizes = fc.array(fc.integer({ min: 0, max: 100_000 }), { maxLength: 60 });
    fc.assert(
      fc.property(sizes, fc.integer({ min: 0, max: 200_000 }), (asked, limit) => {
        using pool = new ArrayBufferPool({ limit });
        const lent: Uint8Array<ArrayBuffer>[] = [];
        for (const bytes of asked) {
          lent.push(pool.take(bytes));
          expect(lent.at(-1)?.length).toBe(bytes);
          expect(new Set(lent.map(({ buffer }) => buffer)).size).toBe(lent.length);
          const back = bytes % 3 === 0 ? lent.shift() : undefined;
          if (back !== undefined) pool.give(back);
          const { idleBytes, lentBytes } = pool.statistics();
          expect(idleBytes).toBeLessThanOrEqual(limit);
          expect(lentBytes).toBe(lent.reduce((sum, { buffer }) => sum + buffer.byteLength, 0));
        }
      }),
    );
  });
});

describe('the size of a buffer', () => {
  it('is at least what was asked for, and at most a quarter more', () => {
    fc.assert(
      fc.property(fc.integer({ min: 4096, max: 2 ** 45 }), (bytes) => {
        const size = sizeClass(bytes);
        expect(size).toBeGreaterThanOrEqual(bytes);
        expect(size).toBeLessThanOrEqual(bytes * 1.25);
        expect(sizeClass(size)).toBe(size);
      }),
    );
    expect([0, 1, 4096, 4097, 8192, 8193].map(sizeClass)).toEqual([
      4096, 4096, 4096, 5120, 8192, 10_240,
    ]);
  });
});

function sharedBytes(): Uint8Array {
  return new Uint8Array(new SharedArrayBuffer(8));
}

function twice(pool: ArrayBufferPool): void {
  const taken = pool.take(1);
  const { buffer } = taken;
  pool.give(taken);
  pool.give(buffer);
}
