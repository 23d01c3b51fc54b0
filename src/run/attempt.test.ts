import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GiB } from '../units/bytes.js';
import { concludeOutOfMemory, type Evidence, LastLines, MemoryCurve } from './attempt.js';
import { recogniseLine } from './recognise/scanner.js';
import type { OutOfMemory } from './types.js';

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

const evidence: Evidence = {
  exitCode: 1,
  killsInLimit: 0,
  killedByKernel: false,
  limit: { bytes: GiB, by: 'cgroup-v1', why: '' },
  reported: undefined,
  read: undefined,
};
const read = recogniseLine('MemoryError');

describe('concludeOutOfMemory', () => {
  it('is none for a program that succeeded, whatever it printed', () => {
    expect(concludeOutOfMemory({ ...evidence, exitCode: 0, read, killsInLimit: 1 })).toBeNull();
  });

  it('takes a kill by hand for none, and one by a counter for one', () => {
    expect(concludeOutOfMemory({ ...evidence, exitCode: 137 })).toBeNull();
    expect(concludeOutOfMemory({ ...evidence, exitCode: 137, killsInLimit: 1 })).toMatchObject({
      kind: 'killed-at-limit',
      totalBytes: GiB,
      message: 'The kernel killed a process at the limit of 1.0 GiB.',
    });
    expect(concludeOutOfMemory({ ...evidence, exitCode: 137, killedByKernel: true })?.kind).toBe(
      'killed-by-kernel',
    );
  });

  const other = (kind: string): OutOfMemory => ({
    kind,
    askedBytes: 'unknown',
    freeBytes: 'unknown',
    totalBytes: 'unknown',
    message: '',
  });

  it.each<readonly [Partial<Evidence>, string | undefined]>([
    [{ exitCode: 1, killedByKernel: true }, undefined],
    [{ exitCode: 137, killedByKernel: 'unknown' }, undefined],
    [{ exitCode: 137, killsInLimit: 'unknown', killedByKernel: true }, 'killed-by-kernel'],
    [{ exitCode: 137, killsInLimit: 1, killedByKernel: true }, 'killed-at-limit'],
    [{ suspected: read }, undefined],
    [{ suspected: read, memoryWasShort: true }, 'python'],
    [{ read: other('node'), suspected: read, memoryWasShort: true }, 'node'],
    [{ reported: other('mps'), killsInLimit: 1 }, 'mps'],
  ])('of %o concludes %s', (parts, kind) => {
    const found = concludeOutOfMemory({ ...evidence, ...parts });
    expect(found?.kind).toBe(kind);
  });

  it('says how many were killed, and at which limit where there is one', () => {
    const limit = { bytes: 'none', by: 'none', why: '' } as const;
    expect(concludeOutOfMemory({ ...evidence, killsInLimit: 2, limit })).toMatchObject({
      totalBytes: 'unknown',
      freeBytes: 0,
      message: expect.stringContaining('killed 2 processes'),
    });
  });

  it('counts a killed worker though the program itself ended with an error', () => {
    expect(concludeOutOfMemory({ ...evidence, exitCode: 1, killsInLimit: 2 })?.kind).toBe(
      'killed-at-limit',
    );
  });

  it('believes the SDK before the output, and the output where there is nothing else', () => {
    const reported = recogniseLine('RuntimeError: CUDA error: out of memory');
    expect(concludeOutOfMemory({ ...evidence, read, reported })?.kind).toBe('cuda-driver');
    expect(concludeOutOfMemory({ ...evidence, read })?.kind).toBe('python');
    expect(concludeOutOfMemory({ ...evidence, exitCode: 'unknown', read })?.kind).toBe('python');
    expect(concludeOutOfMemory(evidence)).toBeNull();
  });
});
