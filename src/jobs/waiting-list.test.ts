import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { waitingJob } from './queue-for-tests.js';
import { agingSeconds, turnOf, WaitingList } from './waiting-list.js';

describe('turnOf', () => {
  it('puts priority first, until age outweighs it', () => {
    expect(turnOf(1000, 1)).toBeLessThan(turnOf(0, 0));
    expect(turnOf(agingSeconds * 1000 + 1, 1)).toBeGreaterThan(turnOf(0, 0));
  });
});

describe('WaitingList', () => {
  it('keeps jobs in order, those of the same turn by their number', () => {
    const list = new WaitingList([waitingJob('10', 1), waitingJob('9', 1)]);
    list.add(waitingJob('11', 1, { priority: 2, atSeconds: 5 }));
    list.add(waitingJob('3', 1, { atSeconds: 9 }));
    expect(list.first(9).map(({ id }) => id)).toEqual(['11', '9', '10', '3']);
    expect(list.first(1)).toHaveLength(1);
  });

  it('tells whose waiting is over', () => {
    const list = new WaitingList([
      waitingJob('1', 1),
      waitingJob('2', 1, { deadlineMs: 200 }),
      waitingJob('3', 1, { deadlineMs: 100 }),
    ]);
    expect(list.expired(99)).toEqual([]);
    expect(list.expired(200).map(({ id }) => id)).toEqual(['3', '2']);
  });

  it('changes what a job needs where it stands', () => {
    const list = new WaitingList([waitingJob('1', 5), waitingJob('2', 5, { deadlineMs: 10 })]);
    list.change('2', { bytes: 7, basis: 'measured' });
    list.change('9', { bytes: 7 });
    expect(list.first(9).map(({ id, bytes }) => [id, bytes])).toEqual([
      ['1', 5],
      ['2', 7],
    ]);
    expect(list.expired(10)).toMatchObject([{ id: '2', bytes: 7, basis: 'measured' }]);
    list.remove('2');
    expect(list.expired(10)).toEqual([]);
  });

  it('is what a sorted array would be, whatever comes and goes', () => {
    const change = fc.record({ id: fc.nat(20), at: fc.nat(5), remove: fc.boolean() });
    fc.assert(
      fc.property(fc.array(change, { maxLength: 60 }), (changes) => {
        const list = new WaitingList();
        const plain = new Map<number, number>();
        for (const { id, at, remove } of changes) {
          if (remove) list.remove(String(id));
          else list.add(waitingJob(String(id), 1, { atSeconds: at }));
          if (remove) plain.delete(id);
          else plain.set(id, at);
        }
        const expected = [...plain].toSorted(([a, x], [b, y]) => x - y || a - b);
        expect(list.first(100).map(({ id }) => Number(id))).toEqual(expected.map(([id]) => id));
        expect(list.size).toBe(plain.size);
        expected.forEach(([id], index) => expect(list.position(String(id))).toBe(index + 1));
        expect(list.position('none')).toBeUndefined();
      }),
    );
  });
});
