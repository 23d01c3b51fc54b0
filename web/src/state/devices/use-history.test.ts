import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { emptyHistory, historyFrom, joined, withReading } from './use-history.js';

describe('use over time', () => {
  it('keeps the peak and the trough of each bucket', () => {
    let history = emptyHistory(400);
    for (const [at, used] of [
      [0, 5],
      [300, 9],
      [900, 2],
      [1000, 4],
    ] as const) {
      history = withReading(history, at, used);
    }
    expect(history).toMatchObject({ epochMs: [0, 1000], max: [9, 4], min: [2, 4] });
  });

  it('has a gap where nothing was read, and none for what is unknown in a bucket', () => {
    let history = withReading(emptyHistory(400), 0, 1);
    history = withReading(history, 400, 'unknown');
    history = withReading(history, 60_000, 3);
    expect(history.max).toEqual([1, null, 3]);
  });

  it('does not bend backwards when a clock is set back', () => {
    const history = withReading(emptyHistory(400), 50_000, 1);
    expect(withReading(history, 10_000, 7)).toBe(history);
  });

  it('joins what was fetched with what was read meanwhile, each bucket once', () => {
    const fetched = historyFrom(
      { id: 'gpu:0', epochMs: [1000, 2000], usedMax: [5, 6], usedMin: [4, 5], alerts: [] },
      400,
    );
    const live = withReading(withReading(emptyHistory(400), 2500, 8), 3500, 9);
    expect(joined(fetched, live)).toMatchObject({ epochMs: [1000, 2000, 3000], max: [5, 6, 9] });
    expect(joined(fetched, withReading(emptyHistory(60), 3500, 9))).toBe(fetched);
  });

  it('never grows beyond its window, never leaves its order', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: 0, max: 5_000_000 }), fc.nat()), { maxLength: 300 }),
        (readings) => {
          let history = emptyHistory(60);
          for (const [at, used] of readings) history = withReading(history, at, used);
          const { epochMs, min, max, windowMs } = history;
          expect(epochMs.length).toBeLessThanOrEqual(402);
          expect([min.length, max.length]).toEqual([epochMs.length, epochMs.length]);
          expect(epochMs).toEqual(epochMs.toSorted((one, other) => one - other));
          expect((epochMs.at(-1) ?? 0) - (epochMs[0] ?? 0)).toBeLessThanOrEqual(windowMs);
        },
      ),
    );
  });
});
