import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { autoLimit, BufferStore } from './buffer-store.js';
import type { BufferValue } from './value.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-buffers-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function inFiles(): BufferStore {
  return new BufferStore({ limit: '1MiB', folder, fileAbove: 0 });
}

function onlyFile(): string {
  const [name = ''] = readdirSync(folder);
  return join(folder, name);
}

const values: [string, BufferValue][] = [
  ['bytes', Uint8Array.of(1, 2, 3)],
  ['no bytes', new Uint8Array()],
  ['numbers', Float32Array.from({ length: 3000 }, (_, index) => Math.sin(index / 100))],
  ['big numbers', BigInt64Array.of(-1n, 2n ** 40n)],
  ['a shape', { shape: [2, 3], data: Int16Array.of(1, 2, 3, 4, 5, 6), dtype: 'int16' }],
  ['half precision', { shape: [2], data: Uint16Array.of(0x3c00, 0), dtype: 'float16' }],
  ['one number', { shape: [], data: Float64Array.of(7), dtype: 'float64' }],
  ['a dictionary', { obs: Float64Array.of(1, 2), done: Uint8Array.of(1) }],
  ['an empty dictionary', {}],
];

describe('a store', () => {
  it.each(values)('gives back %s, from memory and from a file', (name, value) => {
    using memory = new BufferStore({ limit: '1MiB' });
    using files = inFiles();
    for (const store of [memory, files]) {
      expect(store.put(name, value)).toBe(true);
      expect(store.get(name)).toEqual(value);
    }
    using again = inFiles();
    expect(again.get(name)).toEqual(value);
  });

  it('does not change with what was put or got', () => {
    using store = new BufferStore({ limit: '1MiB' });
    const mine = Float32Array.of(1, 2);
    store.put('a', mine);
    mine[0] = 9;
    const got = store.get('a');
    if (got instanceof Float32Array) got[1] = 9;
    expect(store.get('a')).toEqual(Float32Array.of(1, 2));
  });

  it('never holds more than its limits, whatever is put', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(30), fc.nat(4000)), { maxLength: 60 }), (puts) => {
        using store = new BufferStore({ limit: 10_000, folder, fileAbove: 2000, fileLimit: 9000 });
        for (const [key, bytes] of puts) {
          store.put(`k${key}`, new Uint8Array(bytes).fill(key));
          expect(store.has(`k${key}`)).toBe(true);
          const { memoryBytes, fileBytes } = store.statistics();
          expect(memoryBytes).toBeLessThanOrEqual(10_000);
          expect(fileBytes).toBeLessThanOrEqual(9000);
        }
        for (const key of store.keys()) store.delete(key);
        expect(store.statistics()).toMatchObject({ items: 0, memoryBytes: 0, rawBytes: 0 });
        expect(readdirSync(folder)).toEqual([]);
      }),
      { numRuns: 25 },
    );
  });

  it('has the newest value of a key, also when it moves between memory and file', () => {
    using store = new BufferStore({ limit: '1MiB', folder, fileAbove: 2000, compression: 'none' });
    for (const length of [10, 3000, 20, 5000]) {
      store.put('a', new Uint8Array(length).fill(length % 251));
      expect(store.get('a')).toHaveLength(length);
      expect(store.keys()).toEqual(['a']);
    }
    store.put('a', new Uint8Array(1));
    expect(readdirSync(folder)).toEqual([]);
  });

  it('tells what it did', () => {
    using store = new BufferStore({ limit: 4000, compression: 'none' });
    expect(store.statistics()).toMatchObject({ hitRate: 'unknown', compressionRatio: 'unknown' });
    for (const key of ['a', 'b', 'c']) store.put(key, new Uint8Array(1000));
    expect(store.get('c')).toBeDefined();
    expect(store.get('none')).toBeUndefined();
    expect(store.statistics()).toMatchObject({
      items: 2,
      hits: 1,
      misses: 1,
      hitRate: 0.5,
      evictions: 1,
    });
  });

  it('refuses what it cannot keep, and changes nothing', () => {
    using store = new BufferStore({ limit: 2000 });
    store.put('a', Uint8Array.of(1));
    const put = (key: unknown, value: unknown) => () =>
      Reflect.apply(BufferStore.prototype['put'], store, [key, value]);
    expect(
      put(
        'a',
        new Uint8Array(3000).map((_, at) => (at * at) % 251),
      ),
    ).not.toThrow();
    const random = Uint8Array.from(
      { length: 9000 },
      (_, at) => (Math.imul(at + 1, 2_654_435_761) >>> 21) & 255,
    );
    expect(put('a', random)).toThrow(expect.objectContaining({ code: 'buffer-too-large' }));
    for (const value of [null, 7, 'text', [1], { a: 'text' }]) {
      expect(put('a', value)).toThrow(expect.objectContaining({ code: 'bad-buffer' }));
    }
    expect(put('a', { shape: [3], data: new Uint8Array(2) })).toThrow(
      expect.objectContaining({ code: 'bad-shape' }),
    );
    for (const key of ['', 7, 'x'.repeat(5000), '\ud800']) {
      expect(put(key, new Uint8Array())).toThrow(expect.objectContaining({ code: 'bad-key' }));
    }
    expect(store.get('a')).toHaveLength(3000);
  });

  it.each([{ limit: -1 }, { limit: 0.5 }, { folder: '' }, { compression: 'lots' }])(
    'refuses the options %o',
    (options) => {
      expect(() => Reflect.construct(BufferStore, [options])).toThrow(
        expect.objectContaining({ code: 'bad-argument' }),
      );
    },
  );

  it('says so when its folder cannot be', () => {
    const file = join(folder, 'file');
    writeFileSync(file, '');
    expect(() => new BufferStore({ limit: 1, folder: join(file, 'below') })).toThrow(
      expect.objectContaining({ code: 'cannot-write' }),
    );
  });
});

describe('a store of automatic size', () => {
  it('gives memory back when the machine runs short, and takes it again', async () => {
    let usedBytes = 20_000;
    const read = () => Promise.resolve({ usedBytes, totalBytes: 100_000 });
    using store = new BufferStore({ limit: 'auto', compression: 'none' }, read);
    await store.adjust();
    for (let key = 0; key < 10; key += 1) store.put(`k${key}`, new Uint8Array(2000));
    expect(store.statistics().items).toBe(10);
    usedBytes = 105_000;
    await store.adjust();
    expect(store.statistics()).toMatchObject({ memoryLimitBytes: 10_160, items: 4 });
    expect(store.put('large', new Uint8Array(20_000))).toBe(false);
    usedBytes = 20_000;
    await store.adjust();
    expect(store.put('large', new Uint8Array(20_000))).toBe(true);
  });

  it('stays below the load line and below half of the machine', () => {
    expect(autoLimit({ usedBytes: 0, totalBytes: 100, heldBytes: 0 })).toBe(50);
    expect(autoLimit({ usedBytes: 85, totalBytes: 100, heldBytes: 10 })).toBe(15);
    expect(autoLimit({ usedBytes: 99, totalBytes: 100, heldBytes: 5 })).toBe(0);
  });
});

describe('files', () => {
  it('give the value or nothing when any of their bytes is another', () => {
    const value = {
      a: Float32Array.from({ length: 600 }, (_, index) => index),
      b: Uint8Array.of(5),
    };
    inFiles().put('k', value);
    const path = onlyFile();
    const whole = readFileSync(path);
    const change = fc.record({
      at: fc.nat(whole.length - 1),
      bits: fc.integer({ min: 1, max: 255 }),
    });
    fc.assert(
      fc.property(change, ({ at, bits }) => {
        const bytes = Buffer.from(whole);
        bytes[at] = (bytes[at] ?? 0) ^ bits;
        writeFileSync(path, bytes);
        using store = inFiles();
        const got = store.get('k');
        if (got !== undefined) expect(got).toEqual(value);
        else expect(existsSync(path)).toBe(false);
      }),
      { numRuns: 200 },
    );
  });

  it('that were cut short or replaced by anything are found out and removed', () => {
    inFiles().put('k', new Uint8Array(2000).fill(3));
    const path = onlyFile();
    const whole = readFileSync(path);
    const shorter = fc.nat(whole.length - 1).map((length) => whole.subarray(0, length));
    fc.assert(
      fc.property(fc.oneof(shorter, fc.uint8Array()), (bytes) => {
        writeFileSync(path, bytes);
        using store = inFiles();
        expect(store.get('k')).toBeUndefined();
        expect(store.statistics().damaged).toBe(1);
        expect(readdirSync(folder)).toEqual([]);
      }),
    );
  });

  it('of others in the folder are left alone; unfinished ones of dead processes are removed', () => {
    const unfinished = `${'a'.repeat(32)}.999999999.tmp`;
    writeFileSync(join(folder, 'notes.txt'), 'mine');
    writeFileSync(join(folder, unfinished), 'half');
    using store = inFiles();
    expect(store.keys()).toEqual([]);
    expect(readdirSync(folder)).toEqual(['notes.txt']);
  });

  it('that disappear while the store is open are gone, and no error', () => {
    using store = inFiles();
    store.put('k', Uint8Array.of(1));
    rmSync(onlyFile());
    expect(store.get('k')).toBeUndefined();
    expect(store.has('k')).toBe(false);
  });
});
