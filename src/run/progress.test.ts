import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readMessage } from './bridge/read-message.js';
import { ProgressBook, statedBatch } from './progress.js';
import type { RunSettings } from './types.js';

const step = { type: 'step', who: 'trainer-0', microbatch: 4, batch: 16, peakBytes: 1 } as const;

describe('progress', () => {
  it('tells samples a second between what was told', () => {
    const book = new ProgressBook();
    book.add(1, { ...step, number: 1, loss: 'unknown' });
    book.add(3, { ...step, number: 5, loss: 0.5 });
    book.add(4, { ...step, who: 'predict-1', number: 9, loss: 'unknown' });
    expect(book.points).toMatchObject([
      { step: 1, samplesPerSecond: 'unknown', loss: 'unknown' },
      { step: 5, samplesPerSecond: 32, loss: 0.5, atSeconds: 3 },
    ]);
  });

  it('shows training where a program also evaluates or generates, whichever comes first', () => {
    const book = new ProgressBook();
    const call = { ...step, who: 'generate-0', loss: 'unknown', training: false } as const;
    book.add(1, { ...call, number: 1 });
    book.add(2, { ...call, number: 2 });
    expect(book.points.map((point) => point.step)).toEqual([1, 2]);
    book.add(3, { ...step, number: 1, loss: 0.5, training: true });
    book.add(4, { ...call, number: 3 });
    book.add(5, { ...step, number: 7, loss: 0.4, training: true });
    expect(book.points.map((point) => [point.atSeconds, point.step])).toEqual([
      [3, 1],
      [5, 7],
    ]);
    const document = { type: 'step', who: 'a', number: 1, microbatch: 1 };
    expect(readMessage(document)).toMatchObject({ training: true });
    expect(readMessage({ ...document, training: false })).toMatchObject({ training: false });
  });

  it('gives steps a second where the batch of a loop is unknown, and samples a second where it is known', () => {
    const loop = { who: 'loop-7', peakBytes: 1, loss: 0.5 } as const;
    const settings: RunSettings = {
      batch_size: 'unknown',
      accumulation: 1,
      checkpointing: false,
      precision: 'fp32',
      offload: false,
      device: 'host',
    };
    const rates = (batch: ReturnType<typeof statedBatch>) => {
      const book = new ProgressBook();
      for (const [at, number] of [
        [1, 1],
        [3, 5],
      ] as const) {
        book.add(at, { ...batch, ...loop, number });
      }
      const { stepsPerSecond, samplesPerSecond, microbatch } = book.points[1] ?? {};
      return [stepsPerSecond, samplesPerSecond, microbatch];
    };
    const train = (...words: string[]) => ['python', 'train.py', ...words];
    expect(rates(statedBatch(settings, train()))).toEqual([2, 'unknown', 'unknown']);
    const stated = { ...settings, batch_size: 4, accumulation: 8 };
    expect(rates(statedBatch(stated, train('-b', '9')))).toEqual([2, 64, 4]);
    const own = train('--batch_size=12', '--gradient_accumulation_steps=5');
    expect(rates(statedBatch(settings, own))).toEqual([2, 120, 12]);
  });

  it('tells no rate of messages that a busy machine read all at once', () => {
    const book = new ProgressBook();
    const pace = 10;
    for (let number = 1; number <= 50; number++) {
      // Ten steps a second; those of the third second are read at its end.
      const at = number / pace;
      const read = at > 2 && at <= 3 ? 3 + number / 1e6 : at;
      book.add(read, { ...step, number, loss: 1 });
    }
    const rates = book.points.map(({ samplesPerSecond }) => samplesPerSecond);
    expect(rates.slice(0, 10)).toEqual(Array.from({ length: 10 }, () => 'unknown'));
    const known = rates.filter((rate) => rate !== 'unknown');
    expect(known.length).toBeGreaterThan(35);
    expect(Math.max(...known)).toBeLessThanOrEqual(pace * step.batch * 1.2);
    expect(known.at(-1)).toBeCloseTo(pace * step.batch, 0);
  });

  it('stays within bounds and in order, however long a run is', () => {
    const waits = fc.array(fc.double({ min: 0, max: 1e4, noNaN: true }), { maxLength: 900 });
    fc.assert(
      fc.property(waits, (seconds) => {
        const book = new ProgressBook();
        let at = 0;
        for (const [number, wait] of seconds.entries()) {
          at += wait;
          book.add(at, { ...step, number, loss: 1 });
        }
        const times = book.points.map(({ atSeconds }) => atSeconds);
        expect(times.length).toBeLessThanOrEqual(240);
        expect(times.length > 0).toBe(seconds.length > 0);
        expect(times).toEqual(times.toSorted((one, other) => one - other));
      }),
      { numRuns: 30 },
    );
  });

  it('takes a loss that is a number, and no other', () => {
    const messageWith = (loss: unknown) => readMessage({ ...step, number: 1, loss });
    expect(readMessage({ type: 'loop', who: 'loop-7', number: 3, loss: 0.25 })).toEqual({
      type: 'loop',
      who: 'loop-7',
      number: 3,
      peakBytes: 'unknown',
      loss: 0.25,
    });
    expect(readMessage({ type: 'loop', number: -1 })).toBeUndefined();
    expect(messageWith(0.25)).toMatchObject({ loss: 0.25 });
    for (const wrong of [undefined, null, 'nan', Number.NaN, Number.POSITIVE_INFINITY, {}]) {
      expect(messageWith(wrong)).toMatchObject({ loss: 'unknown' });
    }
  });
});
