import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ProgressPoint } from '../types.js';
import { progressFile, readProgressFile } from './progress-file.js';

const point = (step: number): ProgressPoint => ({
  atSeconds: step / 2,
  step,
  samplesPerSecond: step === 1 ? 'unknown' : 16,
  loss: 3 / step,
  microbatch: 8,
  peakBytes: 'unknown',
});

describe('the steps of an attempt that goes on', () => {
  let folder = '';
  let path = '';
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'plimsoll-progress-'));
    path = join(folder, 'attempt-1.progress');
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it('are read as they were written, at most once a second', () => {
    let seconds = 0;
    const write = progressFile(path, () => seconds);
    write([point(1)]);
    seconds = 0.9;
    write([point(1), point(2)]);
    expect(readProgressFile(path)).toEqual([point(1)]);
    seconds = 1;
    write([point(1), point(2)]);
    expect(readProgressFile(path)).toEqual([point(1), point(2)]);
    expect(readdirSync(folder)).toEqual(['attempt-1.progress']);
  });

  it('are none where the file is missing, newer or cannot be written', () => {
    expect(readProgressFile(path)).toEqual([]);
    writeFileSync(path, JSON.stringify({ schema: 99, points: [point(1)] }));
    expect(readProgressFile(path)).toEqual([]);
    const write = progressFile(join(folder, 'missing', 'file'), () => 0);
    expect(() => write([point(1)])).not.toThrow();
  });

  it('leave out what is no step, whatever the file holds', () => {
    fc.assert(
      fc.property(fc.anything(), fc.string(), (odd, text) => {
        writeFileSync(path, JSON.stringify({ schema: 1, points: [point(1), odd] }) ?? text);
        expect(readProgressFile(path)).toEqual([point(1)]);
        writeFileSync(path, text);
        expect(readProgressFile(path)).toEqual([]);
      }),
      { numRuns: 50 },
    );
  });
});
