import {
  appendFileSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../time/clock.js';
import { KiB, MiB } from '../../units/bytes.js';
import { type Libc, loadLibc } from '../launch/libc.js';
import { boundLog } from './bound-log.js';
import {
  droppedRecordPath,
  formatDropped,
  jobLogLimit,
  type LogLimit,
  lateLogLimit,
  nothing,
  partToDrop,
  readDropped,
} from './log-limit.js';
import { readLogPart } from './read-log-part.js';

const limit: LogLimit = { bytes: MiB, firstBytes: 256 * KiB };
let libc: Pick<Libc, 'punchHole'>;
let folder: string;
let log: string;
beforeAll(async () => {
  const loaded = await loadLibc();
  if ('why' in loaded) throw new Error(loaded.why);
  libc = loaded;
});
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-log-'));
  log = join(folder, 'log');
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Numbered lines of 64 bytes: each place says what must stand there. */
function linesFrom(first: number, count: number): Buffer {
  const line = (number: number) => `${String(first + number).padStart(63, '.')}\n`;
  return Buffer.from(Array.from({ length: count }, (_, number) => line(number)).join(''));
}

function bytesAt(from: number, length: number): Buffer {
  const first = Math.floor(from / 64);
  const lines = linesFrom(first, Math.ceil(length / 64) + 1);
  return lines.subarray(from - first * 64, from - first * 64 + length);
}

/** One look, as the supervisor of a moment would do it. */
async function lookOnce(
  hands: Pick<Libc, 'punchHole'> | undefined = libc,
  warnings: string[] = [],
  held = limit,
): Promise<void> {
  const notify = (line: string) => warnings.push(line);
  await boundLog({ path: log, limit: held, clock: systemClock, libc: hands, notify }).release();
}

const diskBytes = () => statSync(log).blocks * 512;
const lines16 = (mib: number) => (mib * MiB) / 64;

describe('partToDrop', () => {
  const limits = fc
    .tuple(fc.integer({ min: 100, max: 10_000 }), fc.integer({ min: 0, max: 80 }))
    .map(([bytes, share]) => ({ bytes, firstBytes: Math.floor((bytes * share) / 100) }));

  it('keeps a log within its limit, its beginning and its end', () => {
    fc.assert(
      fc.property(limits, fc.array(fc.nat({ max: 5000 })), (held, writes) => {
        let size = 0;
        let dropped: { from: number; to: number } | undefined;
        for (const bytes of writes) {
          size += bytes;
          const next = partToDrop(size, dropped, held);
          if (next !== undefined) {
            expect(next.from).toBe(dropped?.from ?? held.firstBytes);
            expect(next.to).toBeGreaterThan(dropped?.to ?? held.firstBytes);
            expect(next.to).toBeLessThanOrEqual(size);
          }
          dropped = next ?? dropped;
          const kept = size - (dropped === undefined ? 0 : dropped.to - dropped.from);
          expect(kept).toBeLessThanOrEqual(held.bytes);
          if (dropped !== undefined) expect(kept).toBeGreaterThan(held.bytes * 0.9 - 1);
        }
      }),
    );
  });

  it('drops nothing of what jobs usually print', () => {
    expect(partToDrop(jobLogLimit.bytes, undefined, jobLogLimit)).toBeUndefined();
    expect(partToDrop(lateLogLimit.bytes + 1, undefined, lateLogLimit)).toMatchObject({ from: 0 });
  });
});

describe('boundLog', () => {
  it('takes whole lines out of the middle, and every place stays what it was', async () => {
    appendFileSync(log, linesFrom(0, lines16(10)));
    const before = diskBytes();
    await lookOnce();
    const dropped = readDropped(log);
    expect(dropped?.from).toBe(limit.firstBytes);
    expect((dropped?.to ?? 1) % 64).toBe(0);
    expect(before).toBeGreaterThanOrEqual(10 * MiB);
    expect(diskBytes()).toBeLessThanOrEqual(limit.bytes + 8 * KiB);
    expect(statSync(log).size).toBe(10 * MiB);
    // It goes on: only what is too much is dropped, and where it begins does not move.
    appendFileSync(log, linesFrom(lines16(10), lines16(3)));
    await lookOnce();
    expect(readDropped(log)?.from).toBe(limit.firstBytes);
    expect(diskBytes()).toBeLessThanOrEqual(limit.bytes + 8 * KiB);
    let read = 0;
    for (let at = 0; at < 13 * MiB; ) {
      const { bytes, next, dropped: missing } = await readLogPart(log, at, 100_000);
      expect(next).toBeGreaterThan(at);
      if (missing !== undefined) expect([at, missing]).toEqual([missing.from, readDropped(log)]);
      expect(Buffer.from(bytes).equals(bytesAt(next - bytes.length, bytes.length))).toBe(true);
      read += bytes.length;
      at = next;
    }
    expect(read).toBeGreaterThan(limit.bytes * 0.8);
    expect(read).toBeLessThanOrEqual(limit.bytes);
  });

  it('cuts lines that have no end within reach', async () => {
    writeFileSync(log, Buffer.alloc(3 * MiB, 'x'));
    await lookOnce();
    const dropped = readDropped(log);
    expect(dropped).toEqual(partToDrop(3 * MiB, undefined, limit));
    const { bytes } = await readLogPart(log, dropped?.to ?? 0, 10);
    expect(Buffer.from(bytes).toString()).toBe('xxxxxxxxxx');
  });

  it('leaves a log alone that is within its limit, and one that is not there', async () => {
    await lookOnce();
    appendFileSync(log, linesFrom(0, lines16(1)));
    await lookOnce();
    expect(readDropped(log)).toBeUndefined();
    expect(diskBytes()).toBeGreaterThanOrEqual(MiB);
  });

  it('does what its forerunner wrote down and did not live to do', async () => {
    appendFileSync(log, linesFrom(0, lines16(4)));
    // The first call asks whether it can be done; the second is the deed.
    let calls = 0;
    await lookOnce({ punchHole: () => Promise.resolve(++calls === 1) });
    const dropped = readDropped(log);
    expect(dropped).toBeDefined();
    expect(diskBytes()).toBeGreaterThanOrEqual(4 * MiB);
    const { next } = await readLogPart(log, limit.firstBytes, 64);
    expect(next).toBe((dropped?.to ?? 0) + 64);
    await lookOnce();
    expect(diskBytes()).toBeLessThanOrEqual(limit.bytes + 8 * KiB);
    expect(readDropped(log)).toEqual(dropped);
  });

  it('says once that it cannot, and then keeps all', async () => {
    const cannot = { punchHole: () => Promise.resolve(false) };
    for (const hands of [cannot, undefined]) {
      appendFileSync(log, linesFrom(0, lines16(2)));
      const warnings: string[] = [];
      const options = { path: log, limit, clock: hurried, libc: hands };
      const bound = boundLog({ ...options, notify: (line) => warnings.push(line) });
      while (warnings.length === 0) await pause();
      // Looks that follow say nothing more.
      for (let more = 0; more < 10; more++) await pause();
      await bound.release();
      expect(warnings).toEqual([
        expect.stringMatching(/^plimsoll: this log has passed 1\.0 MiB and/),
      ]);
      expect(readDropped(log)).toBeUndefined();
      const { bytes } = await readLogPart(log, MiB, 64);
      expect(Buffer.from(bytes).equals(bytesAt(MiB, 64))).toBe(true);
      rmSync(log);
    }
  });

  it('begins anew with a log that somebody emptied', async () => {
    const bound = boundLog({ path: log, limit, clock: hurried, libc, notify: () => {} });
    appendFileSync(log, linesFrom(0, lines16(4)));
    while (readDropped(log) === undefined) await pause();
    truncateSync(log, 0);
    while (readFileSync(droppedRecordPath(log), 'latin1') !== formatDropped(nothing)) await pause();
    appendFileSync(log, linesFrom(0, lines16(0.9)));
    await bound.release();
    appendFileSync(log, linesFrom(lines16(0.9), lines16(3.2)));
    expect(readDropped(log)).toBeUndefined();
  });

  it('lets readers see no zero, while the log grows and is cut under them', async () => {
    const bound = boundLog({ path: log, limit, clock: hurried, libc, notify: () => {} });
    let written = 0;
    let notes = 0;
    for (let at = 0; at < 24 * MiB; ) {
      if (written < 24 * MiB) {
        appendFileSync(log, linesFrom(written / 64, lines16(0.25)));
        written += 0.25 * MiB;
      }
      // Slower than it is written: it falls behind, and is carried over what is gone.
      const { bytes, next, dropped } = await readLogPart(log, at, 100_000);
      if (dropped !== undefined) notes++;
      expect(next).toBeGreaterThan(at);
      expect(Buffer.from(bytes).equals(bytesAt(next - bytes.length, bytes.length))).toBe(true);
      if (dropped === undefined) expect(next - bytes.length).toBe(at);
      at = next;
      await pause();
    }
    await bound.release();
    expect(notes).toBeGreaterThan(0);
    expect(diskBytes()).toBeLessThanOrEqual(limit.bytes + 8 * KiB);
  });
});

/** Looks come so close on each other that they meet with readers. */
const hurried = {
  ...systemClock,
  waitUntil: (_: number, signal?: AbortSignal) =>
    systemClock.waitUntil(systemClock.seconds() + 0.002, signal),
};

const pause = () => new Promise((resolve) => setTimeout(resolve, 2));
