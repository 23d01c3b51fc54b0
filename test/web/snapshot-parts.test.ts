import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AddressSpace, stackTitle, timePoints } from '../../src/report/snapshot-recording.js';
import { TimeAxis } from '../../web/snapshot/data/time-axis.js';

describe('times on a page', () => {
  it('are told to within a pixel by few points, both ways', () => {
    const steps = fc.array(fc.integer({ min: 0, max: 5000 }), { minLength: 2, maxLength: 300 });
    fc.assert(
      fc.property(steps, (gaps) => {
        let now = 0;
        const times = gaps.map((gap) => (now += gap / 1000));
        const { ticks, seconds } = timePoints(times.length, (tick) => times[tick] ?? 0);
        const axis = new TimeAxis(ticks, seconds);
        expect(axis.known).toBe(now > 0);
        if (!axis.known) return;
        times.forEach((time, tick) => {
          expect(Math.abs(axis.secondsAt(tick) - time)).toBeLessThanOrEqual(now / 19_000 + 1e-9);
        });
        expect(axis.tickAt(now)).toBe(times.length - 1);
      }),
    );
  });

  it('need two points for an even pace, and a few more for a pause', () => {
    expect(timePoints(1000, (tick) => tick / 10).ticks).toEqual(Uint32Array.of(0, 999));
    const paused = timePoints(1000, (tick) => tick / 10 + (tick > 500 ? 60 : 0));
    expect(paused.ticks).toEqual(Uint32Array.of(0, 500, 501, 999));
  });

  it('are unknown where the recording has none', () => {
    expect(timePoints(1000, () => 0).ticks).toHaveLength(0);
  });
});

describe('places of addresses', () => {
  const space = new AddressSpace([
    { offset: 2 ** 40, bytes: 4096 },
    { offset: 0, bytes: 1024 },
    { offset: 1024, bytes: 512 },
  ]);

  it('lie close together, with a gap between regions that do not touch', () => {
    expect(space.regions.map(({ place }) => place)).toEqual([0, 4]);
    expect([0, 1024, 1535, 2 ** 40, 2 ** 40 + 512].map((at) => space.placeOf(at))).toEqual([
      0, 2, 2, 4, 5,
    ]);
  });

  it('are undefined where nothing was ever held', () => {
    expect([1536, 2 ** 40 - 1, 2 ** 40 + 4096, -1].map((at) => space.placeOf(at))).toEqual(
      Array.from({ length: 4 }),
    );
  });
});

describe('a stack in a few words', () => {
  const linear = { name: 'linear', file: '/v/site-packages/torch/nn/functional.py', line: 125 };
  const call = { name: '_call_impl', file: '/v/site-packages/torch/nn/modules/module.py', line: 9 };
  const mlp = { name: 'forward', file: '/v/site-packages/transformers/gpt2.py', line: 7 };
  const step = { name: 'step', file: '/srv/train.py', line: 58 };

  it('begins with the function, and ends with the own line', () => {
    expect(stackTitle([linear, call, mlp, call, step])).toBe(
      'linear, forward (transformers/gpt2.py:7), step (srv/train.py:58)',
    );
    expect(stackTitle([linear, step])).toBe('linear, step (srv/train.py:58)');
    expect(stackTitle([step])).toBe('step (srv/train.py:58)');
    expect(stackTitle([])).toBe('no frames recorded');
  });
});
