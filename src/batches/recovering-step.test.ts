import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isOutOfMemoryError, recoveringStep } from './recovering-step.js';

const full = () => new RangeError('Array buffer allocation failed');

describe('recoveringStep', () => {
  it('counts every sample once and in order, whatever fails, and its shares make up one', async () => {
    const sizes = fc.infiniteStream(fc.integer({ min: 1, max: 30 }));
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 60 }),
        sizes,
        async (batch, limits) => {
          const done: number[] = [];
          const step = recoveringStep<number, number>(
            (samples, { share }) => {
              // A limit that is somewhere else each time; one sample always fits.
              if (samples.length > 1 && samples.length > limits.next().value) throw full();
              done.push(...samples);
              return share * (samples.reduce((a, b) => a + b, 0) / samples.length);
            },
            { growAfter: 1 },
          );
          const { parts } = await step(batch);
          expect(done).toEqual(batch);
          expect(parts.reduce((a, { samples }) => a + samples, 0)).toBe(batch.length);
          expect(parts.reduce((a, { share }) => a + share, 0)).toBeCloseTo(1, 10);
          const mean = batch.reduce((a, b) => a + b, 0) / batch.length;
          expect(parts.reduce((a, { value }) => a + value, 0)).toBeCloseTo(mean, 9);
        },
      ),
    );
  });

  it('weighs by tokens where it is told how many a sample has', async () => {
    const texts = ['a', 'bb', 'ccc', 'dddd'];
    const step = recoveringStep<string, number>((_, { share }) => share, {
      microbatch: 2,
      weight: (text) => text.length,
    });
    const { parts } = await step(texts);
    expect(parts.map(({ share }) => share)).toEqual([0.3, 0.7]);
  });

  it('remembers the size, takes back what failed, and grows back later', async () => {
    let limit = 8;
    const undone: number[] = [];
    const sizes: number[] = [];
    const step = recoveringStep<number, void>(
      (samples) => {
        if (samples.length > limit) throw full();
      },
      {
        growAfter: 2,
        undo: (samples) => void undone.push(samples.length),
        onResize: (n) => sizes.push(n),
      },
    );
    const batch = Array.from({ length: 32 }, (_, i) => i);
    expect((await step(batch)).retries).toBe(2);
    expect(undone).toEqual([32, 16]);
    expect((await step(batch)).retries).toBe(0);
    expect(step.microbatch()).toBe(8);
    limit = 100;
    for (let i = 0; i < 8; i++) await step(batch);
    expect(step.microbatch()).toBeGreaterThan(8);
    expect(sizes[0]).toBe(16);
  });

  it('hands on what is no want of memory, and one sample that does not fit', async () => {
    const broken = recoveringStep<number, void>(() => {
      throw new TypeError('no');
    });
    await expect(broken([1, 2, 3])).rejects.toThrow('no');
    const never = recoveringStep<number, void>(() => {
      throw full();
    });
    await expect(never([1, 2, 3, 4])).rejects.toThrow('allocation failed');
  });
});

describe('isOutOfMemoryError', () => {
  it('knows a real one', () => {
    let error: unknown;
    try {
      error = new ArrayBuffer(2 ** 52);
    } catch (caught) {
      error = caught;
    }
    expect(isOutOfMemoryError(error)).toBe(true);
  });

  it.each([new Error('CUDA out of memory'), Object.assign(new Error('x'), { code: 'ENOMEM' })])(
    'knows %s',
    (error) => {
      expect(isOutOfMemoryError(error)).toBe(true);
    },
  );

  it.each([
    new Error('memory is fine'),
    new RangeError('Maximum call stack size exceeded'),
    'out of memory',
  ])('does not take %s for one', (error) => {
    expect(isOutOfMemoryError(error)).toBe(false);
  });
});

const step = (): number => 1;
it.each([
  [5, {}, 'run of recoveringStep is not valid: 5. Pass a function.'],
  [step, { microbatch: 0 }, 'microbatch of recoveringStep is not valid: 0.'],
  [step, { growAfter: Number.NaN }, 'growAfter of recoveringStep is not valid: NaN.'],
  [step, { weight: 'x' }, 'weight of recoveringStep is not valid: "x".'],
] as const)('refuses what is no step or no option: %s %o', (run, options, words) => {
  expect(() => Reflect.apply(recoveringStep, undefined, [run, options])).toThrow(words);
});
