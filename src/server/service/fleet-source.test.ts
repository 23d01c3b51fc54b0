import { expect, it } from 'vitest';
import { madeAnswers } from '../../fleet/made-fleet-for-tests.js';
import type { Prometheus } from '../../fleet/prometheus.js';
import { createVirtualClock } from '../../time/virtual-clock.js';
import { fleetSource } from './fleet-source.js';

it('asks once for many who look, again after a while, and at once after a failure', async () => {
  const clock = createVirtualClock();
  const { devices } = madeAnswers(3, 2);
  let asked = 0;
  let fails = false;
  const prometheus: Prometheus = {
    url: 'http://127.0.0.1:9090',
    points(expression) {
      if (expression.includes('last_over_time(plimsoll_node_info')) asked += 1;
      return fails ? Promise.reject(new Error('gone')) : Promise.resolve(devices);
    },
    lines: () => Promise.resolve([]),
  };
  const source = fleetSource(prometheus, clock, new AbortController().signal);
  const [one, other] = await Promise.all([source(), source()]);
  expect(one).toBe(other);
  expect(one?.nodes).toHaveLength(3);
  expect(asked).toBe(1);
  await clock.advance(11);
  fails = true;
  await expect(source()).rejects.toThrow('gone');
  fails = false;
  expect((await source()).totals.nodes).toBe(3);
  expect(asked).toBe(3);
});
