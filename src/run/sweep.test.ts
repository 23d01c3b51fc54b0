import { spawn } from 'node:child_process';
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openJournal } from './store/journal.js';
import { jobRunId, listRuns, newRunId, RunFolder } from './store/run-folder.js';
import { takeRun } from './store/supervisor-lock.js';
import { sweepRuns } from './sweep.js';
import type { RunReport } from './types.js';

const day = 24 * 60 * 60 * 1000;
let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'plimsoll-abandoned-'));
});
afterEach(() => {
  rmSync(home, { recursive: true, force: true });
});

/** A run whose supervisor is gone, untouched for some days. */
function leftBehind(days: number, id = newRunId(Date.now() - days * day)): RunFolder {
  const folder = new RunFolder(home, id);
  const settings = {
    batch_size: 8,
    accumulation: 1,
    checkpointing: false,
    precision: 'fp32',
    offload: false,
    device: 'host',
  } as const;
  const limit = { bytes: 'none', by: 'none', why: '' } as const;
  folder.create({
    schema: 1,
    id,
    command: ['x'],
    folder: '/',
    createdAt: '',
    settings,
    memoryBytes: null,
    maxAttempts: 8,
    pinnedDevice: false,
    reports: [join(home, `${id}.json`), join(home, `${id}.html`)],
  });
  const journal = openJournal(folder.journal);
  const at = '2026-01-01T00:00:00.000Z';
  const number = 1;
  const start = { type: 'started', at, number, settings, command: ['x'], limit } as const;
  journal.write({ ...start, cgroup: null, killsBefore: 0 });
  const rung = { rung: 'smaller-microbatch', why: 'full', atSeconds: 1 } as const;
  journal.write({ type: 'climbed', number, rung });
  journal.close();
  writeFileSync(folder.attemptFiles(number).exitCode, '3\n');
  age(folder, days);
  return folder;
}

function age(folder: RunFolder, days: number): void {
  const then = new Date(Date.now() - days * day);
  for (const name of readdirSync(folder.path)) utimesSync(join(folder.path, name), then, then);
  utimesSync(folder.path, then, then);
}

describe('a run that were not taken up', () => {
  it('goes after 30 days, and its report is written first', () => {
    const [old, young] = [leftBehind(31), leftBehind(29)];
    sweepRuns(home, '/proc');
    expect(existsSync(old.path)).toBe(false);
    expect(existsSync(young.path)).toBe(true);
    const written = readdirSync(home).filter((name) => name.endsWith('.json'));
    expect(written).toHaveLength(1);
    const report: RunReport = JSON.parse(readFileSync(join(home, written[0] ?? ''), 'utf8'));
    expect(report).toMatchObject({ outcome: 'failed', exitCode: 3 });
    expect(report.attempts).toEqual([
      expect.objectContaining({
        number: 1,
        peakBytes: 'unknown',
        rungs: [{ rung: 'smaller-microbatch', why: 'full', atSeconds: 1 }],
      }),
    ]);
    expect(report.notes.join()).toContain('was not taken up again');
  });

  it('leaves a report that is there already as it is', () => {
    const folder = leftBehind(40);
    const [path = ''] = folder.readPlan()?.reports ?? [];
    writeFileSync(path, 'mine');
    sweepRuns(home, '/proc');
    expect(existsSync(folder.path)).toBe(false);
    expect(readFileSync(path, 'utf8')).toBe('mine');
  });

  it('stays while its job runs, while it is supervised, and where a job of the queue owns it', async () => {
    const [running, supervised] = [leftBehind(40), leftBehind(41)];
    const ofJob = leftBehind(50, jobRunId(Date.now() - 50 * day, '7'));
    const id = readdirSync(join(home, 'runs')).find((name) => running.path.endsWith(name)) ?? '';
    const child = spawn('sleep', ['60'], {
      env: { PLIMSOLL_RUN_ID: id, PATH: process.env['PATH'] },
    });
    await new Promise((resolve) => child.once('spawn', resolve));
    takeRun(supervised.path, '/proc');
    age(supervised, 41);
    sweepRuns(home, '/proc');
    expect([running, supervised, ofJob].map(({ path }) => existsSync(path))).toEqual([
      true,
      true,
      true,
    ]);
    const gone = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await gone;
    sweepRuns(home, '/proc');
    expect(existsSync(running.path)).toBe(false);
    expect(listRuns(home)).toHaveLength(1);
  });

  it('stays where it is not known whether its job runs', () => {
    const folder = leftBehind(400);
    sweepRuns(home, join(home, 'no-proc'));
    expect(existsSync(folder.path)).toBe(true);
  });
});
