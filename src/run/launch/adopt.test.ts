import { spawn } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../time/clock.js';
import { RunFolder } from '../store/run-folder.js';
import { adoptJob } from './adopt.js';
import { drainerScript } from './keeper-scripts.js';
import type { RawOutput } from './outputs.js';

it('a job that was taken up has its last words read, however late its drainer writes them', async () => {
  const home = mkdtempSync(join(tmpdir(), 'plimsoll-adopt-'));
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));
  const folder = new RunFolder(home, '20260101-000000000-0000');
  mkdirSync(folder.path, { recursive: true });
  const files = folder.attemptFiles(1);
  // The job has ended; the drainer of a supervisor that was killed gets no time before it takes over.
  const slowly = `sleep 1; ${drainerScript}`;
  const words = ['-c', slowly, 'plimsoll-drainer', files.lateOutput('stderr')];
  const nothing = openSync('/dev/null', 'w');
  const drainer = spawn('/bin/sh', words, {
    stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe', nothing],
  });
  closeSync(nothing);
  const [line, printed] = [drainer.stdio[3], drainer.stdio[4]];
  if (line && 'end' in line) line.end();
  if (printed && 'end' in printed) printed.end('MemoryError\n');
  writeFileSync(files.exitCode, '001\n');
  const nowhere = (fd: number): RawOutput => ({
    fd,
    isTerminal: false,
    size: () => undefined,
    write: () => Promise.resolve(),
  });
  let seen = '';
  const job = adoptJob({
    files,
    procRoot: '/proc',
    clock: systemClock,
    isOurs: () => true,
    reap: () => undefined,
    outputs: { stdout: nowhere(1), stderr: nowhere(2) },
    onOutput: (bytes) => {
      seen += Buffer.from(bytes).toString();
    },
    hold: undefined,
  });
  expect(await job.ended).toBe(1);
  await job.drained(600_000);
  expect(seen).toBe('MemoryError\n');
});
