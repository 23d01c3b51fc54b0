import { expect, it } from 'vitest';
import { fleetOf } from '../../../../src/fleet/fleet.js';
import { madeAnswers } from '../../../../src/fleet/made-fleet-for-tests.js';
import { filterNodes } from './use-fleet.js';

it('finds nodes by kind, by name and by card', () => {
  const history = { epochMs: [], totalBytes: [], usedBytes: [], reservedBytes: [] };
  const answers = madeAnswers(100, 4);
  const { nodes } = fleetOf({ epochMs: 0, windowSeconds: 60, answers, history });
  const found = (...asked: [Parameters<typeof filterNodes>[1], string]) =>
    filterNodes(nodes, ...asked)
      .map(({ name }) => name)
      .toSorted();
  expect(found('all', '')).toHaveLength(100);
  expect(found('at risk', '')).toEqual(['n0003', 'n0053']);
  expect(found('leaking', '')).toEqual(['n0005', 'n0045', 'n0085']);
  expect(found('silent', '')).toEqual([]);
  expect(found('all', ' N0053 ')).toEqual(['n0053']);
  expect(found('all', 'a100')).toHaveLength(50);
});
