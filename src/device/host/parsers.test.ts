import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  cpuPercent,
  parseCpuTime,
  parseMeminfo,
  parsePageSize,
  parsePressure,
  parseProportional,
  parseResidentPages,
} from './linux-host.js';

describe('parseMeminfo', () => {
  it('reads the four figures in bytes', () => {
    const text =
      'MemTotal:       24682740 kB\nMemFree:        1000 kB\nMemAvailable:   24354768 kB\nSwapTotal:      2048 kB\nSwapFree:       1024 kB\nHugePages_Total:       0\n';
    expect(parseMeminfo(text)).toEqual({
      totalBytes: 24_682_740 * 1024,
      availableBytes: 24_354_768 * 1024,
      swapTotalBytes: 2048 * 1024,
      swapFreeBytes: 1024 * 1024,
    });
  });

  it('calls unknown what an old kernel does not tell', () => {
    expect(parseMeminfo('MemTotal: 1 kB\nMemFree: 1 kB\n').availableBytes).toBe('unknown');
  });
});

describe('parsePressure', () => {
  it('reads both shares', () => {
    const text =
      'some avg10=12.34 avg60=0.00 avg300=0.00 total=1\nfull avg10=3.00 avg60=0.00 avg300=0.00 total=1\n';
    expect(parsePressure(text)).toEqual({ somePercent: 12.34, fullPercent: 3 });
  });

  it('calls unknown what is not there', () => {
    expect(parsePressure('')).toEqual({ somePercent: 'unknown', fullPercent: 'unknown' });
    expect(parsePressure('some avg10=999.00 avg60=0')).toMatchObject({ somePercent: 'unknown' });
  });
});

describe('cpu time', () => {
  const before = parseCpuTime('cpu  100 0 100 800 0 0 0 0 50 0\ncpu0 1 2 3\n');
  const after = parseCpuTime('cpu  150 0 150 1000 100 0 0 0 50 0\n');

  it('is the share that was not idle between two readings', () => {
    expect(cpuPercent(before, after)).toBe(25);
  });

  it('is unknown at first, without time between, and when ticks step back', () => {
    expect(cpuPercent(undefined, after)).toBe('unknown');
    expect(cpuPercent(after, after)).toBe('unknown');
    expect(cpuPercent(after, before)).toBe('unknown');
    expect(parseCpuTime('intr 5')).toBeUndefined();
  });
});

describe('figures of a process', () => {
  it('are pages of statm and Pss of smaps_rollup', () => {
    expect(parseResidentPages('5000 1200 800 10 0 900 0\n')).toBe(1200);
    expect(parseResidentPages('')).toBe(0);
    expect(parseProportional('00400000-7ffc [rollup]\nRss:  900 kB\nPss:     512 kB\n')).toBe(
      524_288,
    );
    expect(parseProportional('')).toBeUndefined();
  });
});

describe('parsePageSize', () => {
  it('finds the size among other entries', () => {
    expect(parsePageSize(Buffer.concat([pair(16n, 5n), pair(6n, 65_536n), pair(0n, 0n)]))).toBe(
      65_536,
    );
  });

  it('does not believe an odd size, nor look past the end', () => {
    expect(parsePageSize(pair(6n, 5000n))).toBeUndefined();
    expect(parsePageSize(Buffer.concat([pair(0n, 0n), pair(6n, 4096n)]))).toBeUndefined();
    expect(parsePageSize(Buffer.alloc(7))).toBeUndefined();
  });
});

describe('all parsers of /proc', () => {
  it('answer whole bytes or unknown to any text', () => {
    const line = fc.oneof(
      fc.string(),
      fc
        .tuple(fc.constantFrom('MemTotal', 'MemAvailable', 'SwapFree', 'Pss', 'cpu '), fc.string())
        .map(([key, value]) => `${key}: ${value} kB`),
      fc.array(fc.nat(), { maxLength: 12 }).map((numbers) => `cpu  ${numbers.join(' ')}`),
    );
    const text = fc.array(line).map((lines) => lines.join('\n'));
    fc.assert(
      fc.property(text, text, fc.uint8Array(), (one, other, bytes) => {
        const numbers = [
          ...Object.values(parseMeminfo(one)),
          parseResidentPages(one),
          parseProportional(one) ?? 0,
          parsePageSize(Buffer.from(bytes)) ?? 0,
        ];
        const bad = numbers.filter(
          (value) => value !== 'unknown' && !(Number.isSafeInteger(value) && value >= 0),
        );
        expect(bad).toEqual([]);
        const percent = cpuPercent(parseCpuTime(one), parseCpuTime(other));
        expect(percent === 'unknown' || (percent >= 0 && percent <= 100)).toBe(true);
      }),
    );
  });
});

function pair(key: bigint, value: bigint): Buffer {
  return Buffer.from(new BigUint64Array([key, value]).buffer);
}
