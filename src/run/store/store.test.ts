import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readProcess } from '../processes/process-table.js';
import { openJournal, readJournal } from './journal.js';
import { isRunId, jobRunId, listRuns, newRunId, RunFolder, readNumberFile } from './run-folder.js';
import { isSupervised, takeRun } from './supervisor-lock.js';

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'plimsoll-home-'));
});
afterEach(() => {
  rmSync(home, { recursive: true, force: true });
});

describe('the journal', () => {
  it('keeps what was written, and takes a torn line for one that never was', () => {
    const path = join(home, 'journal.jsonl');
    const journal = openJournal(path);
    journal.write({ type: 'stopped', at: 'a', signal: 'SIGINT' });
    journal.close();
    appendFileSync(path, '{"type":"finis');
    expect(readJournal(path)).toEqual([{ type: 'stopped', at: 'a', signal: 'SIGINT' }]);
    appendFileSync(path, '\n');
    const again = openJournal(path);
    again.write({ type: 'attached', at: 'b', pid: 1 });
    again.close();
    expect(readJournal(path).map(({ type }) => type)).toEqual(['stopped', 'attached']);
    expect(readJournal(join(home, 'none'))).toEqual([]);
  });
});

describe('a supervisor file that is damaged', () => {
  it("does not let a second one in while the first listens on the run's socket", async () => {
    const path = join(home, 'runs', 'x');
    const bridge = join(path, 'bridge.sock');
    expect(takeRun(path, '/proc')).toEqual({ heldBy: undefined });
    const settings = { accumulation: 1, precision: 'fp32', device: 'host' };
    const ids = { id: 'x', folder: '/', createdAt: '', bridge };
    const rest = { command: ['x'], reports: [], settings, memoryBytes: null, maxAttempts: 1 };
    writeFileSync(join(path, 'run.json'), JSON.stringify({ ...ids, ...rest }));
    for (const text of ['', 'null', '{}', '{"pid":true}']) {
      writeFileSync(join(path, 'supervisor-1'), text);
      const server = createServer();
      await new Promise<void>((resolve) => server.listen(bridge, resolve));
      expect([text, takeRun(path, '/proc', 1)]).toEqual([text, { heldBy: process.pid }]);
      await new Promise((resolve) => server.close(resolve));
    }
    expect(takeRun(path, '/proc', 1)).toEqual({ heldBy: undefined });
  });
});

describe('a run folder', () => {
  it('is for its owner alone, and gives its plan back', () => {
    const id = newRunId(Date.UTC(2026, 10, 15, 5, 58, 12, 345), () => 0.5);
    expect(id).toBe('20261115-055812345-8000');
    const folder = new RunFolder(home, id);
    const plan = folder.create({
      schema: 1,
      id,
      command: ['x'],
      folder: '/',
      createdAt: '',
      settings: {
        batch_size: 1,
        accumulation: 1,
        checkpointing: false,
        precision: 'fp32',
        offload: false,
        device: 'host',
      },
      memoryBytes: null,
      maxAttempts: 8,
      pinnedDevice: false,
      reports: [],
    });
    expect(folder.readPlan()).toEqual(plan);
    expect(statSync(folder.path).mode & 0o077).toBe(0);
    expect(listRuns(home)).toEqual([id]);
    expect(listRuns(join(home, 'none'))).toEqual([]);
    // Runs of jobs are looked after by the daemon that queued them.
    const ofJob = jobRunId(Date.UTC(2026, 10, 15), '17', () => 0.5);
    expect(ofJob).toBe('20261115-000000000-8000-job17');
    new RunFolder(home, ofJob).create({ ...plan, id: ofJob });
    expect(listRuns(home)).toEqual([id]);
    expect([id, ofJob, '..', `${id}/..`, `${id}-job`].map(isRunId)).toEqual([
      true,
      true,
      false,
      false,
      false,
    ]);
  });

  it('leaves no part of a plan that cannot be put in place', () => {
    const folder = new RunFolder(home, 'r');
    mkdirSync(join(folder.path, 'run.json'), { recursive: true });
    const plan = { schema: 1, id: 'r', command: ['x'], folder: '/', createdAt: '' } as const;
    const rest = { memoryBytes: null, maxAttempts: 8, pinnedDevice: false, reports: [] };
    const settings = {
      batch_size: 1,
      accumulation: 1,
      checkpointing: false,
      precision: 'fp32',
      offload: false,
      device: 'host',
    };
    expect(() => folder.create({ ...plan, ...rest, settings })).toThrow(/EISDIR/);
    expect(readdirSync(folder.path).toSorted()).toEqual(['run.json', 'sdk']);
  });

  it('has numbers only where they are whole', () => {
    const path = join(home, 'n');
    expect(readNumberFile(path)).toBeUndefined();
    writeFileSync(path, '12');
    expect(readNumberFile(path)).toBeUndefined();
    writeFileSync(path, '12\n');
    expect(readNumberFile(path)).toBe(12);
  });
});

describe('the right to supervise', () => {
  it('belongs to one that lives, and passes on when it is dead', () => {
    expect(takeRun(home, '/proc')).toEqual({ heldBy: undefined });
    expect(isSupervised(home, '/proc')).toBe(true);
    // Somebody else comes while we live.
    expect(takeRun(home, '/proc', 1)).toEqual({ heldBy: process.pid });
    // A process that began at another time is another process.
    writeFileSync(join(home, 'supervisor-1'), JSON.stringify({ pid: process.pid, started: 1 }));
    expect(isSupervised(home, '/proc')).toBe(false);
    expect(takeRun(home, '/proc', 1)).toEqual({ heldBy: undefined });
    expect(JSON.parse(readFileSync(join(home, 'supervisor-2'), 'utf8'))).toMatchObject({ pid: 1 });
  });

  it('leaves no claim of a supervisor that was killed before it had the run', () => {
    const started = readProcess('/proc', process.pid)?.started;
    const ofTheLiving = `claim-${process.pid}-${started}`;
    writeFileSync(join(home, `claim-${process.pid}-1`), '{}');
    writeFileSync(join(home, 'claim-4194305-12'), '');
    writeFileSync(join(home, ofTheLiving), '{}');
    expect(takeRun(home, '/proc', 1)).toEqual({ heldBy: undefined });
    expect(readdirSync(home).toSorted()).toEqual([ofTheLiving, 'supervisor-1']);
  });
});
