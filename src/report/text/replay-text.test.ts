import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GiB, MiB } from '../../units/bytes.js';
import { type ReplayResult, type ReplayTrace, replayText } from './replay-text.js';
import { textWidth } from './text-width.js';

const options = {
  columns: 80,
  rows: 10,
  loadLinePercent: 90,
  style: { colour: false, unicode: true },
};

const seconds = Array.from({ length: 61 }, (_, index) => index);
const rising: ReplayTrace = {
  capacityBytes: 4 * GiB,
  seconds,
  usedBytes: seconds.map((second) => (second / 60) * 4 * GiB),
};
const alarmed: ReplayResult = {
  alarms: [
    { atSeconds: 15, risk: 'medium', etaSeconds: 90, lowSeconds: 70, highSeconds: 110 },
    { atSeconds: 30, risk: 'high', etaSeconds: 31, lowSeconds: 25, highSeconds: 40 },
  ],
  leak: { found: true, bytesPerSecond: 68 * MiB },
  cause: 'leak',
};
const calm: ReplayResult = { alarms: [], leak: { found: false, bytesPerSecond: 0 }, cause: 'none' };

describe('replayText', () => {
  it('draws the series under the capacity and the load line', () => {
    const lines = replayText(calm, rising, options).split('\n');
    expect(lines.find((line) => line.startsWith('   4.0 GiB'))).toMatch(/│─+[⠀-⣿]+$/);
    expect(lines.find((line) => line.includes('load line'))).toContain('╌');
    expect(lines.some((line) => /└0 +.*60 s|30 s/.test(line))).toBe(true);
  });

  it('marks each alarm under the instant it was raised at', () => {
    const lines = replayText(alarmed, rising, options).split('\n');
    const marks = lines.find((line) => line.includes('alarms')) ?? '';
    const plot = 80 - 12;
    expect(marks.indexOf('1')).toBe(12 + Math.floor((15 / 60) * plot));
    expect(marks.indexOf('2')).toBe(12 + Math.floor((30 / 60) * plot));
    expect(lines).toContain('  2. after 30 s: risk high, full in 31 s (25 to 40 s), estimated');
  });

  it('gives the verdict in words', () => {
    const text = replayText(alarmed, rising, options);
    expect(text).toContain('Warned 30 s before the recording ends.');
    expect(text).toContain('It leaks 68.0 MiB a second.');
    expect(text).toContain('Likely cause: a leak');
    const quiet = replayText(calm, rising, options);
    expect(quiet).toContain('not expected within a minute');
    expect(quiet).toContain('No leak was found.');
    expect(quiet).not.toContain('cause');
  });

  it('draws live bytes as a second line', () => {
    const allocatedBytes = rising.usedBytes.map(() => GiB);
    expect(replayText(calm, { ...rising, allocatedBytes }, options)).toContain('allocated');
  });

  it('is never wider than the terminal, whatever was recorded', () => {
    const value = fc.oneof(fc.constant('unknown' as const), fc.nat());
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 160 }),
        fc.array(fc.tuple(fc.nat(1000), value), { maxLength: 50 }),
        fc.array(fc.nat(1000), { maxLength: 12 }),
        (columns, rows, times) => {
          const sorted = rows.toSorted((one, other) => one[0] - other[0]);
          const trace: ReplayTrace = {
            capacityBytes: 1000,
            seconds: sorted.map(([second]) => second),
            usedBytes: sorted.map(([, used]) => used),
          };
          const alarms = times
            .toSorted((one, other) => one - other)
            .map((atSeconds) => ({
              atSeconds,
              risk: 'high' as const,
              etaSeconds: 3,
              lowSeconds: 'unknown' as const,
              highSeconds: 'never' as const,
            }));
          const text = replayText({ ...calm, alarms }, trace, { ...options, columns });
          for (const line of text.split('\n')) expect(textWidth(line)).toBeLessThanOrEqual(columns);
          expect(text).not.toMatch(/NaN|undefined|Infinity/);
        },
      ),
    );
  });
});
