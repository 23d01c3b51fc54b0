import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LastLines } from './last-lines.js';
import { MemoryCurve } from './memory-curve.js';

describe('MemoryCurve', () => {
  it('keeps every sample of a short attempt', () => {
    const curve = new MemoryCurve();
    for (let n = 0; n < 50; n++) curve.add(n / 10, n);
    expect(curve.points).toHaveLength(50);
    expect(curve.points.at(-1)).toEqual({ atSeconds: 4.9, bytes: 49 });
  });

  it('has few points of a long one, in the order of time, and never loses the peak', () => {
    const values = fc.array(fc.nat(1e9), { minLength: 1, maxLength: 3000 });
    fc.assert(
      fc.property(values, (bytes) => {
        const curve = new MemoryCurve();
        for (const [at, value] of bytes.entries()) curve.add(at, value);
        const { points } = curve;
        expect(points.length).toBeLessThanOrEqual(120);
        expect(Math.max(...points.map((point) => point.bytes))).toBe(Math.max(...bytes));
        for (const [at, point] of points.entries()) {
          expect(point.atSeconds).toBeGreaterThan(points[at - 1]?.atSeconds ?? -1);
        }
      }),
      { numRuns: 50 },
    );
  });
});

describe('LastLines', () => {
  const linesOf = (...chunks: string[]) => {
    const last = new LastLines();
    for (const chunk of chunks) last.take(Buffer.from(chunk));
    return last.lines;
  };

  it('keeps the end, whatever pieces it comes in', () => {
    const text = Array.from({ length: 5000 }, (_, n) => `line ${n}\n`).join('');
    expect(linesOf(text).at(-1)).toBe('line 4999');
    expect(linesOf(...(text.match(/.{1,7}/gs) ?? []))).toEqual(linesOf(text));
    expect(linesOf(text)).toHaveLength(12);
  });

  it('shows of a progress bar its last state, and no colours', () => {
    expect(linesOf('1 %\r2 %\r3 %\n\u001B[31mOutOfMemoryError\u001B[0m: CUDA\n')).toEqual([
      '3 %',
      'OutOfMemoryError: CUDA',
    ]);
    expect(linesOf('a\r\nb\r\n')).toEqual(['a', 'b']);
  });

  it('takes any bytes', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 300 })), (chunks) => {
        const last = new LastLines();
        for (const chunk of chunks) last.take(chunk);
        expect(last.lines.length).toBeLessThanOrEqual(12);
      }),
    );
  });
});
