import { expect, it } from 'vitest';
import { createVirtualClock } from '../../time/clock.js';
import { collector, collectRegularly } from './exporter.js';

it('collects once a minute, and no more once it is stopped', async () => {
  const clock = createVirtualClock();
  const stopping = new AbortController();
  let collections = 0;
  const collecting = collectRegularly(clock, stopping.signal, () => {
    collections += 1;
  });
  await clock.advance(179);
  expect(collections).toBe(2);
  stopping.abort();
  await collecting;
  expect([collections, clock.waiting]).toEqual([2, 0]);
});

it('makes V8 collect: an object without references is gone', async () => {
  const collect = collector();
  const held = new WeakRef(new Float64Array(1000));
  // It may be used until this turn ends.
  await new Promise((resolve) => setImmediate(resolve));
  collect();
  expect(held.deref()).toBeUndefined();
});
