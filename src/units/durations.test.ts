import { describe, expect, it } from 'vitest';
import { Failure } from '../failure.js';
import { formatSeconds, parseSeconds } from './durations.js';

describe('parseSeconds', () => {
  it.each([
    ['60', 60],
    ['0.1', 0.1],
    ['10ms', 0.01],
    ['5m', 300],
    ['1.5h', 5400],
    ['2d', 172_800],
  ])('reads %s', (text, seconds) => {
    expect(parseSeconds(text)).toBeCloseTo(seconds, 12);
  });

  it.each(['', '-1', 's', '1w', '1:30', 'Infinity'])('refuses %s', (text) => {
    expect(() => parseSeconds(text)).toThrow(Failure);
  });
});

describe('formatSeconds', () => {
  it.each([
    [0, '0.0 s'],
    [0.02, '20 ms'],
    [0.8, '0.8 s'],
    [45.2, '45 s'],
    [200, '3 min 20 s'],
    [3600, '1 h'],
    [7500, '2 h 5 min'],
    [529_200, '6 d 3 h'],
  ])('%d', (seconds, text) => {
    expect(formatSeconds(seconds)).toBe(text);
  });
});
