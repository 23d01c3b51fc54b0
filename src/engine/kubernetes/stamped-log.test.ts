import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { StampedLog } from './stamped-log.js';

/** A line as a node keeps it; many have the same time. */
interface Line {
  readonly nanoseconds: number;
  readonly text: string;
}

const line = fc.record({
  nanoseconds: fc.integer({ min: 0, max: 3_000_000_000 }).map((at) => at - (at % 250_000_000)),
  text: fc.string({ unit: fc.constantFrom('a', ' ', 'ö', '\r', '2026-11-16T10:00:00Z ') }),
});

function stampOf({ nanoseconds }: Line): string {
  const at = new Date(Date.UTC(2026, 10, 16, 10) + Math.floor(nanoseconds / 1e9) * 1000);
  const fraction = String(nanoseconds % 1e9).padStart(9, '0');
  return at.toISOString().replace(/\.\d+Z$/, `.${fraction}Z`);
}

/** What kubectl prints: it begins with the second that was named, not with the nanosecond. */
function printed(lines: readonly Line[], since: string): Buffer {
  const second = since.slice(0, 19);
  const all = lines.map((one) => `${stampOf(one)} ${one.text}\n`);
  return Buffer.from(all.filter((text) => text.slice(0, 19) >= second).join(''));
}

function taking(lines: readonly Line[], cuts: readonly number[], pieceBytes: number): string {
  const written: Buffer[] = [];
  const log = new StampedLog((bytes) => written.push(bytes));
  for (const cut of [...cuts, Number.POSITIVE_INFINITY]) {
    log.reconnect();
    const bytes = printed(lines, log.since).subarray(0, cut);
    for (let at = 0; at < bytes.length; at += pieceBytes) {
      log.take(bytes.subarray(at, at + pieceBytes));
    }
  }
  return Buffer.concat(written).toString('utf8');
}

describe('a log with times', () => {
  it('is written once, without them, in pieces of any size and over connections that break', () => {
    fc.assert(
      fc.property(
        fc.array(line, { maxLength: 12 }),
        fc.array(fc.nat(300), { maxLength: 4 }),
        fc.integer({ min: 1, max: 90 }),
        (drawn, cuts, pieceBytes) => {
          const lines = drawn.toSorted((one, other) => one.nanoseconds - other.nanoseconds);
          const text = lines.map((one) => `${one.text}\n`).join('');
          expect(taking(lines, cuts, pieceBytes)).toBe(text);
        },
      ),
    );
  });

  it('passes on what has no time, and goes on after it', () => {
    const written: string[] = [];
    const log = new StampedLog((bytes) => written.push(bytes.toString('utf8')));
    const words = 'failed to watch the log\n\n';
    log.take(Buffer.from(`${words}2026-11-16T10:00:00.5Z step 1\n${words}`));
    expect(written.join('')).toBe(`${words}step 1\n${words}`);
    expect(log.since).toBe('2026-11-16T10:00:00.5Z');
  });
});
