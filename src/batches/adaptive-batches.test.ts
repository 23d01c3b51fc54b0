import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { adaptiveBatches, readPosition, writePosition } from './adaptive-batches.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-batches-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

function* upTo(n: number): Generator<number> {
  for (let i = 0; i < n; i++) yield i;
}
async function* slowly(n: number): AsyncGenerator<number> {
  for (let i = 0; i < n; i++) yield await Promise.resolve(i);
}
const always = { checkSeconds: 0 };

describe('adaptiveBatches', () => {
  it('halves above 85 %, doubles below 50 %, and stays between', async () => {
    const readings = [10, 90, 99, 70, 60, 20, 49, 10, 10];
    const sizes: number[] = [];
    const batches = adaptiveBatches(upTo(1000), {
      batchSize: 32,
      ...always,
      memoryPercent: () => readings.shift() ?? 70,
    });
    for await (const batch of batches) sizes.push(batch.length);
    expect(sizes.slice(0, 9)).toEqual([32, 16, 8, 8, 8, 16, 32, 32, 32]);
  });

  it.each([
    ['a list', () => [...upTo(257)]],
    ['an iterable', () => upTo(257)],
    ['an async iterable', () => slowly(257)],
    ['a function', () => (startAt: number) => [...upTo(257)].slice(startAt)],
  ])(
    'hands out every sample of %s once and in order, whatever the memory does',
    async (_, source) => {
      await fc.assert(
        fc.asyncProperty(
          fc.infiniteStream(fc.integer({ min: 0, max: 100 })),
          fc.integer({ min: 1, max: 40 }),
          async (memory, batchSize) => {
            const seen: number[] = [];
            for await (const batch of adaptiveBatches(source(), {
              batchSize,
              ...always,
              memoryPercent: () => memory.next().value,
            })) {
              expect(batch.length).toBeLessThanOrEqual(batchSize);
              seen.push(...batch);
            }
            expect(seen).toEqual([...upTo(257)]);
          },
        ),
        { numRuns: 20 },
      );
    },
  );

  it('hands out a batch that was too large again, in smaller ones', async () => {
    const seen: number[] = [];
    const sizes: number[] = [];
    const batches = adaptiveBatches(upTo(100), {
      batchSize: 40,
      memoryPercent: () => 10,
      ...always,
    });
    for await (const batch of batches) {
      if (batch.length > 12) {
        expect(batches.again()).toBe(true);
        continue;
      }
      sizes.push(batch.length);
      seen.push(...batch);
    }
    expect(seen).toEqual([...upTo(100)]);
    expect(Math.max(...sizes)).toBe(10);
    expect(batches.position).toBe(100);
  });

  it('tries the size that failed again, but not soon', async () => {
    const sizes: number[] = [];
    const batches = adaptiveBatches(upTo(5000), {
      batchSize: 8,
      memoryPercent: () => 10,
      ...always,
    });
    for await (const batch of batches) {
      if (sizes.push(batch.length) === 1) batches.again();
    }
    expect(sizes.slice(1, 100).every((size) => size === 4)).toBe(true);
    expect(sizes.at(-2)).toBe(8);
  });

  it('says when a batch cannot be smaller', async () => {
    const batches = adaptiveBatches([1], { batchSize: 8, memoryPercent: () => 10 });
    for await (const _ of batches) expect(batches.again()).toBe(false);
  });

  it('goes on after a crash at any point: nothing lost, only the batch at hand again', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 9 }), { maxLength: 12 }),
        async (lives) => {
          const positionFile = join(mkdtempSync(join(folder, 'x')), 'at.json');
          const done: number[] = [];
          const work = async (most: number) => {
            const batches = adaptiveBatches(upTo(100), {
              batchSize: 7,
              positionFile,
              memoryPercent: () => 60,
            });
            let count = 0;
            for await (const batch of batches) {
              // The crash comes while the batch is worked on.
              if (++count > most) return;
              done.push(...batch);
            }
          };
          for (const life of lives) await work(life);
          await work(Infinity);
          expect(done).toEqual([...upTo(100)]);
        },
      ),
      { numRuns: 6 },
    );
  });

  it('keeps the position in one whole file', async () => {
    const path = join(folder, 'at.json');
    for await (const _ of adaptiveBatches(upTo(10), {
      batchSize: 4,
      positionFile: path,
      memoryPercent: () => 60,
    }));
    expect(readPosition(path)).toEqual({ done: 10, size: 4 });
    expect(readdirSync(folder)).toEqual(['at.json']);
    writeFileSync(path, '{"done":-1}');
    expect(() => readPosition(path)).toThrow(expect.objectContaining({ code: 'bad-position' }));
    expect(readPosition(join(folder, 'none.json'))).toBeUndefined();
  });

  it('takes no foreign file for a position', () => {
    const path = join(folder, 'at.json');
    fc.assert(
      fc.property(fc.string(), (text) => {
        writeFileSync(path, text);
        expect(() => readPosition(path)).toThrow(expect.objectContaining({ code: 'bad-position' }));
      }),
      { numRuns: 50 },
    );
    writePosition(path, { done: 3, size: 2 });
    expect(readPosition(path)).toEqual({ done: 3, size: 2 });
  });

  it('closes the source when the loop is left', async () => {
    let closed = false;
    function* source() {
      try {
        yield* upTo(100);
      } finally {
        closed = true;
      }
    }
    for await (const _ of adaptiveBatches(source(), { batchSize: 4, memoryPercent: () => 60 }))
      break;
    expect(closed).toBe(true);
  });

  it('reads the memory of this machine by itself', async () => {
    let count = 0;
    for await (const batch of adaptiveBatches(upTo(10), { batchSize: 4 })) count += batch.length;
    expect(count).toBe(10);
  });
});

describe('options that would lose samples', () => {
  const given = { batchSize: 8 };
  it.each([
    ['batchSize', {}, 'batchSize of adaptiveBatches is missing.'],
    ['batchSize', { batchSize: Number.NaN }, 'batchSize of adaptiveBatches is not valid: NaN.'],
    ['batchSize', { batchSize: 0 }, '0.'],
    ['batchSize', { batchSize: -1 }, '-1.'],
    ['batchSize', { batchSize: '8' }, '"8".'],
    ['batchSize', { batchSize: 2.5 }, '2.5.'],
    ['smallestBatch', { batchSize: 4, smallestBatch: 16 }, '16.'],
    ['smallestBatch', { ...given, smallestBatch: 0 }, '0.'],
    ['shrinkAbovePercent', { ...given, shrinkAbovePercent: Number.NaN }, 'NaN.'],
    ['growBelowPercent', { ...given, growBelowPercent: 85 }, '85.'],
    ['checkSeconds', { ...given, checkSeconds: -1 }, '-1.'],
    ['startAt', { ...given, startAt: -1 }, '-1.'],
    ['positionFile', { ...given, positionFile: '' }, '"".'],
    ['onResize', { ...given, onResize: 5 }, '5.'],
  ] as const)('are refused: %s in %o', (field, options, end) => {
    const call = () => adaptiveBatches([1, 2, 3], Object(options));
    expect(call).toThrow(expect.objectContaining({ code: 'bad-argument', field }));
    expect(call).toThrow(end);
  });

  it('are refused where there is no source', () => {
    for (const source of [5, undefined, null, {}]) {
      expect(() => Reflect.apply(adaptiveBatches, undefined, [source, given])).toThrow(
        'Pass a list, an iterable, or a function that returns one.',
      );
    }
  });
});
