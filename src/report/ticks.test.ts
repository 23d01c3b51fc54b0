import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GiB, MiB } from '../units/bytes.js';
import { byteTicks, timeTicks } from './ticks.js';

const labels = (ticks: readonly { label: string }[]) => ticks.map(({ label }) => label);

describe('byteTicks', () => {
  it('takes round GiB', () => {
    expect(labels(byteTicks(139.8 * GiB, 6))).toEqual(['0', '50 GiB', '100 GiB']);
    expect(labels(byteTicks(5.2 * GiB, 6))).toEqual([
      '0',
      '1 GiB',
      '2 GiB',
      '3 GiB',
      '4 GiB',
      '5 GiB',
    ]);
    expect(labels(byteTicks(1.1 * GiB, 6))).toEqual([
      '0',
      '0.2 GiB',
      '0.4 GiB',
      '0.6 GiB',
      '0.8 GiB',
      '1.0 GiB',
    ]);
  });

  it('takes MiB below one GiB', () => {
    expect(labels(byteTicks(500 * MiB, 5))).toEqual([
      '0',
      '100 MiB',
      '200 MiB',
      '300 MiB',
      '400 MiB',
      '500 MiB',
    ]);
  });

  it('has few ticks, all inside and all with different labels', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 2 ** 45 }),
        fc.integer({ min: 1, max: 10 }),
        (top, wanted) => {
          const ticks = byteTicks(top, wanted);
          expect(ticks.length).toBeLessThanOrEqual(wanted + 1);
          expect(ticks.every(({ at }) => at >= 0 && at <= top)).toBe(true);
          expect(new Set(labels(ticks)).size).toBe(ticks.length);
        },
      ),
    );
  });
});

describe('timeTicks', () => {
  it('counts as people do', () => {
    expect(labels(timeTicks(0, 60, 6))).toEqual([
      '0',
      '10 s',
      '20 s',
      '30 s',
      '40 s',
      '50 s',
      '60 s',
    ]);
    expect(labels(timeTicks(0, 600, 5))).toEqual([
      '0',
      '2 min',
      '4 min',
      '6 min',
      '8 min',
      '10 min',
    ]);
    expect(labels(timeTicks(0, 4 * 3600, 4))).toEqual(['0', '1 h', '2 h', '3 h', '4 h']);
    expect(labels(timeTicks(0, 150, 5))).toEqual(['0', '30 s', '60 s', '90 s', '2:00', '2:30']);
    expect(labels(timeTicks(0, 7 * 86_400, 8))).toContain('7 d');
  });

  it('has few ticks, all inside and all with different labels', () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 1e7, noNaN: true }),
        fc.double({ min: 0.5, max: 1e8, noNaN: true }),
        fc.integer({ min: 1, max: 10 }),
        (from, span, wanted) => {
          const ticks = timeTicks(from, from + span, wanted);
          expect(ticks.length).toBeLessThanOrEqual(wanted + 1);
          expect(
            ticks.every(({ at }) => at >= from - span * 1e-6 && at <= from + span * (1 + 1e-6)),
          ).toBe(true);
          expect(new Set(labels(ticks)).size).toBe(ticks.length);
        },
      ),
    );
  });
});
