import { spawn } from 'node:child_process';
import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { killQuietly } from '../../src/run/processes/end-tree.js';
import { readProcesses } from '../../src/run/processes/process-table.js';
import { cleanEnvironment, useCommand } from '../cli/command.js';
import { needsOtherAccounts } from '../support/needs.js';
import { until } from './running.js';

const command = useCommand();
/** The account `nobody`, on every Linux. */
const nobody = 65_534;
let mark = 0;

beforeAll(() => {
  chmodSync(dirname(command.folder()), 0o755);
});

/** A number of seconds that no other process sleeps. */
const newMark = () => `77${process.pid}${mark++}`;

/** By its arguments: it has no variable of ours. */
function sleepers(seconds: string): readonly number[] {
  return readProcesses('/proc')
    .filter(({ pid, state }) => state !== 'Z' && words(pid).includes(seconds))
    .filter(({ pid }) => words(pid)[0] === 'sleep')
    .map(({ pid }) => pid);
}

function words(pid: number): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return [];
  }
}

/** Leaves its parents, its session and its environment, and holds none of our outputs. */
const daemon = (seconds: string) =>
  `(env -i setsid sh -c 'env -i setsid sleep ${seconds} &' </dev/null >/dev/null 2>&1)`;

interface Started {
  readonly pid: number;
  readonly ended: Promise<number | null>;
}

/** `plimsoll run` with no limit, and so without a cgroup, as root or as an account that is not. */
function start(account: 'own' | 'nobody', line: string, wrap: readonly string[] = []): Started {
  const home = join(command.folder(), `home-${newMark()}`);
  mkdirSync(home, { mode: 0o700 });
  if (account === 'nobody') chownSync(home, nobody, nobody);
  const become = ['setpriv', `--reuid=${nobody}`, `--regid=${nobody}`, '--clear-groups'];
  const all: readonly string[] = [
    ...(account === 'nobody' ? become : []),
    ...wrap,
    process.execPath,
    command.path(),
    'run',
    '--grace',
    '1',
    '--',
    'sh',
    '-c',
    line,
  ];
  const [program = '', ...rest] = all;
  const child = spawn(program, rest, {
    env: cleanEnvironment({ PLIMSOLL_HOME: home, HOME: home }),
    cwd: '/',
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  return { pid: child.pid ?? 0, ended };
}

const accounts = [
  ['own', {}],
  ['nobody', needsOtherAccounts],
] as const;

for (const [account, needed] of accounts)
  describe(`a process that hides from its run, account: ${account}`, needed, () => {
    it('is gone when the run has ended', async () => {
      const seconds = newMark();
      const line = `${daemon(seconds)}; until pgrep -f '^sleep ${seconds}' >/dev/null; do :; done`;
      expect(await start(account, line).ended).toBe(0);
      expect(sleepers(seconds)).toEqual([]);
    });

    it('is gone when the run was cancelled', async () => {
      const seconds = newMark();
      const run = start(account, `${daemon(seconds)}; exec sleep 600`);
      await until(() => (sleepers(seconds).length > 0 ? true : undefined));
      process.kill(run.pid, 'SIGTERM');
      expect(await run.ended).toBe(128 + 15);
      expect(sleepers(seconds)).toEqual([]);
    });

    it('is gone though it forks again and again, each time with its parent ended', async () => {
      const seconds = newMark();
      // No list of processes is read fast enough to see a link: each makes the file anew. It ends after
      // some minutes, so that a failure leaves no chain for ever.
      const chain = `import os, sys, time
end = time.time() + 300
while time.time() < end:
    if os.fork(): os._exit(0)
    time.sleep(0.001)
    open(sys.argv[1], "w").close()`;
      const file = `/tmp/plimsoll-chain-${seconds}`;
      const one = `env -i setsid python3 -c '${chain}' ${file} </dev/null >/dev/null 2>&1`;
      const line = `${one}; ${one}; until [ -e ${file} ]; do sleep 0.1; done; exit 3`;
      expect(await start(account, line).ended).toBe(3);
      rmSync(file, { force: true });
      await new Promise((resolve) => setTimeout(resolve, 500));
      expect(existsSync(file)).toBe(false);
    });
  });

describe('orphans of a run', () => {
  it('are taken off the list of processes when they end', async () => {
    const seconds = newMark();
    const line = `for i in $(seq 30); do (env -i setsid sh -c 'true &' </dev/null >/dev/null 2>&1); done; exec sleep ${seconds}`;
    const run = start('own', line);
    await until(() => (sleepers(seconds).length > 0 ? true : undefined));
    const ended = () =>
      readProcesses('/proc').filter(({ parent, state }) => parent === run.pid && state === 'Z');
    await until(() => (ended().length === 0 ? true : undefined));
    process.kill(run.pid, 'SIGTERM');
    expect(await run.ended).toBe(128 + 15);
  });

  it('are not mistaken for what a shell had started before it became us', async () => {
    const seconds = newMark();
    const isThere = `until pgrep -f '^sleep ${seconds}' >/dev/null; do :; done`;
    const line = `sleep ${seconds} >/dev/null 2>&1 & ${isThere}; exec "$@"`;
    const shell = ['sh', '-c', line, 'sh'];
    expect(await start('own', 'true', shell).ended).toBe(0);
    const [left = 0] = sleepers(seconds);
    expect(left).toBeGreaterThan(0);
    killQuietly(left, 'SIGKILL');
  });
});
