import { describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { resolveIntervals } from './intervals.js';

describe('the intervals', () => {
  it('are 0.1 s, 1 s and 5 s unless told otherwise, and go down to 10 ms', () => {
    expect(resolveIntervals({})).toMatchObject({
      intervalSeconds: 0.1,
      processIntervalSeconds: 1,
      rescanSeconds: 5,
      durationSeconds: 0,
    });
    expect(resolveIntervals({ intervalSeconds: 0.01 }).intervalSeconds).toBe(0.01);
  });

  it('name the one that is bad', () => {
    for (const bad of [0.0099, 0, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
      for (const name of ['intervalSeconds', 'processIntervalSeconds', 'rescanSeconds'] as const) {
        expect(() => resolveIntervals({ [name]: bad })).toThrow(Failure);
        expect(() => resolveIntervals({ [name]: bad })).toThrow(name);
      }
    }
    expect(() => resolveIntervals({ durationSeconds: -1 })).toThrow(Failure);
  });
});
