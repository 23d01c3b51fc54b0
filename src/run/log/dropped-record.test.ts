import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  droppedRecordPath,
  formatDropped,
  parseDropped,
  readDropped,
  writeDropped,
} from './dropped-record.js';

const place = fc.nat({ max: 2 ** 51 });
const part = fc
  .tuple(place, fc.integer({ min: 1, max: 2 ** 51 }))
  .map(([from, length]) => ({ from, to: from + length }));

describe('the record of what is missing', () => {
  it('says what was written, always in the same room', () => {
    fc.assert(
      fc.property(part, (dropped) => {
        expect(formatDropped(dropped).length).toBe(51);
        expect(parseDropped(formatDropped(dropped))).toEqual(dropped);
      }),
    );
  });

  it('is nothing where it is damaged or half of another', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 60, unit: 'binary' }), (text) => {
        expect(parseDropped(text)).toBeUndefined();
      }),
    );
    fc.assert(
      fc.property(part, part, fc.integer({ min: 1, max: 50 }), (one, other, cut) => {
        const torn = formatDropped(one).slice(0, cut) + formatDropped(other).slice(cut);
        const whole = [one, other, undefined].map((dropped) => JSON.stringify(dropped));
        expect(whole).toContain(JSON.stringify(parseDropped(torn)));
      }),
      { numRuns: 1000 },
    );
  });

  it('is read with its log, and counts no more once that was emptied', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'plimsoll-record-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const log = join(folder, 'log');
    expect(readDropped(log)).toBeUndefined();
    writeFileSync(log, 'x'.repeat(100));
    await writeDropped(log, { from: 1000, to: 9_000_000 });
    await writeDropped(log, { from: 10, to: 90 });
    expect(readDropped(log)).toEqual({ from: 10, to: 90 });
    truncateSync(log, 89);
    expect(readDropped(log)).toBeUndefined();
    writeFileSync(log, 'x'.repeat(100));
    writeFileSync(droppedRecordPath(log), 'what');
    expect(readDropped(log)).toBeUndefined();
  });
});
