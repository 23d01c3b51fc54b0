import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { needsLinux } from '../../../test/support/needs.js';
import { nodeRunVariable } from '../node/run-attempt.js';
import { endWithShell } from './on-node.js';

const limitMs = 600_000;

/** A process in a session of its own, as torchrun starts its workers. */
function begun(home: string): ChildProcess {
  const env = { ...process.env, [nodeRunVariable]: home };
  const child = spawn('sleep', ['100000'], { env, detached: true, stdio: 'ignore' });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}

function homeOfRun(): string {
  const home = mkdtempSync(join(tmpdir(), 'plimsoll-end-'));
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));
  return home;
}

const ended = (child: ChildProcess) => child.exitCode !== null || child.signalCode !== null;

it('ends what is left of a run whose shell was killed, and of no other', {
  ...needsLinux,
  timeout: 2 * limitMs,
}, async () => {
  const [home, over] = [homeOfRun(), homeOfRun()];
  const shells = [begun('/none'), begun('/none')];
  const left = begun(home);
  const other = begun(over);
  endWithShell(shells[0]?.pid ?? 0, home);
  endWithShell(shells[1]?.pid ?? 0, over);
  // A run that ended by itself has removed its folder.
  rmSync(over, { recursive: true });
  for (const shell of shells) shell.kill('SIGKILL');
  await expect.poll(() => existsSync(home), { timeout: limitMs }).toBe(false);
  await expect.poll(() => ended(left), { timeout: limitMs }).toBe(true);
  expect(ended(other)).toBe(false);
});
