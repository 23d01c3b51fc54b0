import { spawn } from 'node:child_process';
import {
  closeSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../../test/support/made-once.js';
import { needsLinux } from '../../../test/support/needs.js';
import { pumpToLog } from '../launch/launch.js';
import { type Libc, loadLibc } from '../launch/libc.js';
import {
  addToLog,
  droppedRecordPath,
  formatDropped,
  parseDropped,
  readDropped,
  writeDropped,
} from './log-limit.js';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const notes = 5000;
let folder = '';
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-log-lock-'));
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  await build({
    stdin: {
      contents: `import { loadLibc } from './src/run/launch/libc.ts';
        import { addToLog } from './src/run/log/log-limit.ts';
        const { pipes } = await loadLibc();
        const [, , log, count] = process.argv;
        for (let note = 1; note <= Number(count); note++) addToLog(pipes, log, 'note ' + note + '\\n');`,
      resolveDir: root,
    },
    outfile: join(folder, 'notes.mjs'),
    bundle: true,
    platform: 'node',
    format: 'esm',
    external: ['koffi'],
  });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function realLibc(): Promise<Libc & { readonly pipes: NonNullable<Libc['pipes']> }> {
  const libc = await loadLibc();
  if ('why' in libc || libc.pipes === undefined) throw new Error('no C library');
  return { ...libc, pipes: libc.pipes };
}

/** A program whose output goes into the log, line by line, until it has printed all or is told to end. */
async function printInto(log: string, count: number, end?: Promise<unknown>): Promise<void> {
  const libc = await realLibc();
  const { readFd, writeFd } = libc.pipe();
  const program = `i=0; while [ $i -lt ${count} ]; do i=$((i + 1)); echo "line $i"; done`;
  const child = spawn('sh', ['-c', program], { stdio: ['ignore', writeFd, 'inherit'] });
  closeSync(writeFd);
  void end?.then(() => child.kill());
  const fd = openSync(log, 'a', 0o600);
  await pumpToLog({
    readFd,
    log: {
      fd,
      isTerminal: false,
      size: () => undefined,
      write: () => Promise.reject(new Error('it was not moved')),
    },
    scratch: libc.pipe(),
    pipes: libc.pipes,
    seen: () => {},
  });
  closeSync(fd);
}

function numbered(word: string, count: number): readonly string[] {
  return Array.from({ length: count }, (_, at) => `${word} ${at + 1}`);
}

function linesOf(log: string, word: string): readonly string[] {
  return readFileSync(log, 'utf8')
    .split('\n')
    .filter((line) => line.startsWith(word));
}

describe('the lock of a log', needsLinux, () => {
  it('keeps notes of another process and moved output from overwriting each other', async () => {
    const log = join(folder, 'both');
    const adding = spawn(process.execPath, [join(folder, 'notes.mjs'), log, String(notes)], {
      stdio: 'inherit',
    });
    const added = new Promise((resolve) => adding.once('exit', resolve));
    const bothWrote = added.then(() => eventually(() => linesOf(log, 'line').length > 0));
    await printInto(log, Number.MAX_SAFE_INTEGER, bothWrote);
    expect(await added).toBe(0);
    const [ofNotes, ofLines] = [linesOf(log, 'note'), linesOf(log, 'line')];
    expect(ofNotes).toEqual(numbered('note', notes));
    expect(ofLines.length).toBeGreaterThan(0);
    expect(ofLines).toEqual(numbered('line', ofLines.length));
    expect(readFileSync(log, 'utf8').split('\n')).toHaveLength(ofLines.length + notes + 1);
  });

  it('is given up after a while where its holder does not go on: nothing waits for ever', async () => {
    const log = join(folder, 'held');
    const { pipes } = await realLibc();
    const holder = openSync(log, 'a', 0o600);
    expect(pipes.tryLock(holder)).toBe(true);
    const other = openSync(log, 'a', 0o600);
    expect(pipes.tryLock(other)).toBe(false);
    addToLog(pipes, log, 'note 1\n');
    await printInto(log, 3);
    expect(pipes.tryLock(other)).toBe(false);
    pipes.unlock(holder);
    expect(pipes.tryLock(other)).toBe(true);
    for (const fd of [holder, other]) closeSync(fd);
    expect(readFileSync(log, 'utf8')).toBe('note 1\nline 1\nline 2\nline 3\n');
  });
});

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
    const records = mkdtempSync(join(tmpdir(), 'plimsoll-record-'));
    onTestFinished(() => rmSync(records, { recursive: true }));
    const log = join(records, 'log');
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
