import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hullLayout } from '../parts/hull.js';
import { madeDevice } from '../state/made-for-tests.js';
import { forecastShape } from './chart-input.js';
import { withHues } from './hues.js';
import { clockTicks } from './memory-chart.js';

const GiB = 1024 ** 3;
const reservation = { name: 'a', isReleasing: false, usedBytes: 'unknown' } as const;

describe('the hull', () => {
  const device = madeDevice({
    otherProcessesBytes: 10 * GiB,
    releasingBytes: 5 * GiB,
    availableBytes: 45 * GiB,
    reservations: [
      { ...reservation, jobId: '1', bytes: 5 * GiB, isReleasing: true },
      { ...reservation, jobId: '2', bytes: 20 * GiB, usedBytes: 5 * GiB },
      { ...reservation, jobId: '3', bytes: 10 * GiB, usedBytes: 12 * GiB },
    ],
  });

  it('stacks other processes, jobs and memory being released, without gaps', () => {
    const { layers, line, water, room } = hullLayout(device);
    expect(layers.map(({ kind, jobId }) => kind + jobId)).toEqual([
      'other',
      'job2',
      'job3',
      'releasing1',
    ]);
    expect(
      layers.map(({ from, to }) => [from, to].map((share) => Math.round(share * 100))),
    ).toEqual([
      [0, 10],
      [10, 30],
      [30, 40],
      [40, 45],
    ]);
    expect([line, water]).toEqual([0.9, 0.3]);
    expect(room?.to).toBeCloseTo(0.9);
  });

  it('shows how much is really used, and who takes more than was promised', () => {
    const [, second, third, back] = hullLayout(device).layers;
    expect([second?.filled, second?.over]).toEqual([0.25, false]);
    expect([third?.filled, third?.over]).toEqual([1, true]);
    expect(back?.filled).toBeUndefined();
  });

  it('stays inside of itself, whatever the figures are', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(200), { maxLength: 8 }), fc.nat(200), (sizes, other) => {
        const reservations = sizes.map((size, index) => ({
          ...reservation,
          jobId: String(index),
          bytes: size * GiB,
        }));
        const { layers } = hullLayout(
          madeDevice({ otherProcessesBytes: other * GiB, reservations }),
        );
        for (const { from, to } of layers) {
          expect(from).toBeLessThanOrEqual(to);
          expect(to).toBeLessThanOrEqual(1);
        }
      }),
    );
    expect(hullLayout(madeDevice({ totalBytes: 'unknown' })).layers).toEqual([]);
  });
});

describe('colours of jobs', () => {
  const on = (...ids: readonly string[]) =>
    madeDevice({
      reservations: ids.map((jobId) => Object.assign({ jobId, bytes: 1 }, reservation)),
    });

  it('differ within a hull, stay while the job is there, and go with it', () => {
    const first = withHues(new Map(), [on('10', '20', '30')]);
    expect(new Set(first.values()).size).toBe(3);
    expect(withHues(first, [on('30', '10', '20')])).toBe(first);
    const next = withHues(first, [on('20', '40')]);
    expect(next.get('20')).toBe(first.get('20'));
    expect([...next.keys()]).toEqual(['20', '40']);
  });
});

describe('a time axis', () => {
  it('is marked at round times of the wall clock', () => {
    const from = Date.UTC(2026, 0, 1, 10, 0, 20);
    expect(clockTicks(from, from + 300_000, 5, 0).map(({ label }) => label)).toEqual([
      '10:01',
      '10:02',
      '10:03',
      '10:04',
      '10:05',
    ]);
    expect(clockTicks(from, from + 20_000, 4, -330).map(({ label }) => label)[0]).toBe('15:30:20');
    expect(clockTicks(from, from + 5 * 86_400_000, 5, 0)[0]?.label).toBe('01-02');
  });
});

describe('the cone of a forecast', () => {
  const now = { ms: 1000, usedBytes: 5, limitBytes: 10 };
  const { forecast } = madeDevice({});

  it('is there only where an end is seen, and open where it may never come', () => {
    expect(forecastShape(forecast, now)).toBeUndefined();
    const seen = { ...forecast, etaSeconds: 10, lowSeconds: 5, highSeconds: 'never' } as const;
    expect(forecastShape(seen, now)).toEqual({
      fromMs: 1000,
      fromBytes: 5,
      limitBytes: 10,
      etaMs: 11_000,
      soonestMs: 6000,
      latestMs: undefined,
    });
  });
});
