import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Failure } from '../failure.js';
import { formatBytes, GiB, KiB, MiB, parseBytes } from './bytes.js';

describe('parseBytes', () => {
  it.each([
    ['24GiB', 24 * GiB],
    ['24g', 24 * GiB],
    ['24GB', 24e9],
    ['1.5 GiB', 1.5 * GiB],
    ['100m', 100 * MiB],
    ['8KB', 8000],
    ['512', 512],
    ['.5k', 512],
    ['0', 0],
  ])('reads %s', (text, bytes) => {
    expect(parseBytes(text)).toBe(bytes);
  });

  it.each(['', 'GiB', '-1', '1e9', '24 GiBs', 'NaN', '9999999TiB', '1..5g', '0x10'])(
    'refuses %s with one clear error',
    (text) => {
      expect(() => parseBytes(text)).toThrow(Failure);
    },
  );

  it('reads back every whole number of bytes', () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), (bytes) => {
        expect(parseBytes(String(bytes))).toBe(bytes);
      }),
    );
  });

  it('answers a whole number or a Failure for any text', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 20 }), (text) => {
        try {
          expect(Number.isSafeInteger(parseBytes(text))).toBe(true);
        } catch (error) {
          expect(error).toBeInstanceOf(Failure);
        }
      }),
    );
  });
});

describe('formatBytes', () => {
  it.each([
    ['unknown' as const, 'unknown'],
    [0, '0 B'],
    [KiB, '1.0 KiB'],
    [1023.4 * KiB, '1023 KiB'],
    [1023.6 * KiB, '1.0 MiB'],
    [5.25 * MiB, '5.3 MiB'],
    [97 * MiB, '97.0 MiB'],
    [104 * MiB, '104 MiB'],
    [-640 * MiB, '-640 MiB'],
    [1023 * MiB, '1023 MiB'],
    [GiB, '1.0 GiB'],
    [141 * GiB, '141.0 GiB'],
    [1023.4 * GiB, '1023.4 GiB'],
    [1024 * GiB, '1.0 TiB'],
    [73_274.6 * GiB, '71.6 TiB'],
    [-2 * GiB, '-2.0 GiB'],
  ])('%s', (bytes, text) => {
    expect(formatBytes(bytes)).toBe(text);
  });

  it('is never more than 5 % off, so that a rate or a leak can be told apart from another', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 512 * GiB }), (bytes) => {
        const back = parseBytes(formatBytes(bytes));
        expect(Math.abs(back - bytes) / bytes).toBeLessThanOrEqual(0.05);
      }),
    );
  });
});
