import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { formatEntry, type JournalEntry, parseEntry } from '../../run/store/journal-entry.js';
import type { Attempt, RunSettings } from '../../run/types.js';
import { JournalTail } from './local-run.js';

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-tail-'));
  path = join(folder, 'journal.jsonl');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const stopped = (signal: string) => JSON.stringify({ type: 'stopped', at: 'now', signal });

describe('JournalTail', () => {
  it('finds nothing before the file is there, then each line once', () => {
    const tail = new JournalTail(path);
    expect(tail.read()).toEqual([]);
    writeFileSync(path, `${stopped('A')}\n`);
    expect(tail.read()).toMatchObject([{ signal: 'A' }]);
    expect(tail.read()).toEqual([]);
    appendFileSync(path, `${stopped('B')}\n${stopped('C')}\n`);
    expect(tail.read()).toMatchObject([{ signal: 'B' }, { signal: 'C' }]);
  });

  it('reads the same entries however the writes are cut', () => {
    const signals = fc.array(fc.string(), { maxLength: 20 });
    fc.assert(
      fc.property(signals, fc.integer({ min: 1, max: 60 }), (names, size) => {
        writeFileSync(path, '');
        const tail = new JournalTail(path);
        const all = Buffer.from(names.map((name) => `${stopped(name)}\n`).join(''));
        const found: unknown[] = [];
        for (let at = 0; at < all.length; at += size) {
          appendFileSync(path, all.subarray(at, at + size));
          found.push(...tail.read());
        }
        expect(found).toEqual(names.map((signal) => ({ type: 'stopped', at: 'now', signal })));
      }),
      { numRuns: 50 },
    );
  });

  it('goes on after a line that a crash cut, and after one that is longer than any', () => {
    const tail = new JournalTail(path);
    writeFileSync(path, `{"type":"star${stopped('lost')}\n${stopped('A')}\n`);
    expect(tail.read()).toMatchObject([{ signal: 'A' }]);
    appendFileSync(path, 'x'.repeat(5 * 1024 * 1024));
    expect(tail.read()).toEqual([]);
    appendFileSync(path, `\n${stopped('B')}\n`);
    expect(tail.read()).toMatchObject([{ signal: 'B' }]);
  });
});

describe('JournalTail before an entry of a newer version', () => {
  it('refuses it at each look, and reads on from there once it is known', () => {
    const tail = new JournalTail(path);
    const newer = JSON.stringify({ schema: 99, type: 'stopped', at: 'now', signal: 'X' });
    writeFileSync(path, `${stopped('A')}\n`);
    expect(tail.read()).toHaveLength(1);
    appendFileSync(path, `${stopped('B')}\n${newer}\n`);
    expect(() => tail.read()).toThrow(expect.objectContaining({ code: 'newer-file' }));
    expect(() => tail.read()).toThrow(expect.objectContaining({ code: 'newer-file' }));
    const known = newer.replace('99', '1 ');
    writeFileSync(path, `${stopped('A')}\n${stopped('B')}\n${known}\n`);
    expect(tail.read()).toMatchObject([{ signal: 'B' }, { signal: 'X' }]);
  });
});

describe('parseEntry', () => {
  const settings: RunSettings = {
    batch_size: 8,
    accumulation: 1,
    checkpointing: false,
    precision: 'fp32',
    offload: false,
    device: 'gpu:0',
  };
  const command = ['train'];
  const limit = { bytes: 'none', by: 'none', why: '' } as const;
  const attempt: Attempt = {
    number: 1,
    settings,
    command,
    startedAt: '2026-01-01T00:00:00.000Z',
    endedAt: '2026-01-01T00:01:30.000Z',
    exitCode: 0,
    outOfMemory: null,
    rungs: [],
    peakBytes: 1000,
    source: 'measured',
    peakFrom: 'nvml',
    limit,
    snapshot: null,
  };
  const at = 'now';
  const entries: readonly JournalEntry[] = [
    { type: 'started', at, number: 1, settings, command, limit, cgroup: null, killsBefore: 0 },
    { type: 'climbed', number: 1, rung: { rung: 'host', why: '', atSeconds: 0 } },
    { type: 'stopped', at, signal: 'SIGTERM' },
    { type: 'attached', at, pid: 7 },
    { type: 'ended', attempt, next: null },
    { type: 'ended', attempt, next: { rung: 'host', why: '', settings } },
    { type: 'finished', at, outcome: 'interrupted', exitCode: 'unknown' },
  ];

  it.each(entries.map((entry) => [entry.type, entry] as const))(
    'takes %s as it was written',
    (_, entry) => {
      expect(parseEntry(formatEntry(entry), path)).toEqual(entry);
    },
  );

  /** Which fields an entry of a run cannot be without, and of which kind. */
  it.each([
    [0, ['at', 'number', 'settings', 'command', 'limit']],
    [1, ['number', 'rung']],
    [2, ['signal']],
    [5, ['attempt', 'next']],
    [6, ['at', 'outcome']],
  ])('takes none without its fields: %i', (index, needed) => {
    const entry = { ...entries[index] };
    for (const field of needed) {
      for (const wrong of [undefined, true, []]) {
        const text = JSON.stringify({ ...entry, [field]: field === 'command' ? [7] : wrong });
        expect(parseEntry(text, path), `${field}: ${String(wrong)}`).toBeUndefined();
      }
    }
  });

  it.each(['number', 'settings', 'startedAt', 'endedAt', 'limit', 'rungs'])(
    'takes no attempt without %s',
    (field) => {
      for (const wrong of [undefined, true, null]) {
        const entry = { type: 'ended', attempt: { ...attempt, [field]: wrong }, next: null };
        expect(parseEntry(JSON.stringify(entry), path)).toBeUndefined();
      }
    },
  );

  it('takes nothing for an entry that is none', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (line) => {
        const entry = parseEntry(line, path);
        expect(entry === undefined || typeof entry.type === 'string').toBe(true);
      }),
    );
    expect(parseEntry('{"type":"surprise"}', path)).toBeUndefined();
    expect(parseEntry('null', path)).toBeUndefined();
  });
});
