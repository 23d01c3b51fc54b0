import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { cleanEnvironment, useCommand } from '../../../test/cli/command.js';
import {
  canLimitByCgroup,
  endAllWith,
  leftCgroups,
  livingWith,
  needsCgroups,
  runIds,
  until,
} from '../../../test/run/running.js';
import { type Discovery, discoverDevices } from '../../device/discover.js';
import type { LocalEngineOptions } from '../../engine/local/local-engine.js';
import { RunFolder } from '../../run/store/run-folder.js';
import { supervisorOf } from '../../run/store/supervisor-lock.js';
import { type Clock, systemClock } from '../../time/clock.js';
import { MiB } from '../../units/bytes.js';
import type { JobVariables } from '../job-variables.js';
import { openRealDaemon } from './real-daemon-for-tests.js';
import type { Daemon, JobView } from './types.js';

const command = useCommand();
let folder: string;
let discovery: Discovery;
let daemon: Daemon;
/** Lines for the person who runs the server. */
let said: string[] = [];
const home = () => join(folder, 'home');

function open(
  engine: Partial<LocalEngineOptions> = {},
  variables: JobVariables = { useGpus: false },
): Promise<Daemon> {
  const environment = cleanEnvironment({ PLIMSOLL_TOKEN: 's3cret', TEST_MARK: folder });
  const { PLIMSOLL_TOKEN: _, ...forJobs } = environment;
  return openRealDaemon({
    folder,
    command: command.path(),
    discovery,
    environment,
    engine: { environment: forJobs, ...engine },
    variables,
    log: (line) => said.push(line),
  });
}

beforeEach(async () => {
  said = [];
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-real-'));
  discovery = await discoverDevices();
  daemon = await open();
});
afterEach(async () => {
  await daemon.close();
  discovery.close();
  await endAllWith(`TEST_MARK=${folder}`);
  rmSync(folder, { recursive: true, force: true });
});

async function ended(id: string): Promise<JobView> {
  await until(() => (daemon.job(id).endedAt === null ? undefined : true));
  return daemon.job(id);
}

async function logOf(id: string): Promise<string> {
  const { bytes } = await daemon.readLog(id, 0, 1_000_000);
  return Buffer.from(bytes).toString();
}

function script(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

/** Pauses pass so many times as fast. */
function hurried(speed: number): Clock {
  return {
    seconds: () => systemClock.seconds() * speed,
    epochMs: () => systemClock.epochMs(),
    waitUntil: (at, signal) => systemClock.waitUntil(at / speed, signal),
  };
}

/** Time stands still until it is so; then an hour has passed, and it goes on. */
function hurriedWhen(isSo: () => boolean): Clock {
  const begin = systemClock.seconds();
  return {
    seconds: () => (isSo() ? systemClock.seconds() + 3600 : begin),
    epochMs: () => systemClock.epochMs(),
    waitUntil: (_, signal) => systemClock.waitUntil(systemClock.seconds() + 0.05, signal),
  };
}

const shell = (text: string) => ['sh', '-c', text];
const node = process.execPath;

describe('a job on this machine', () => {
  it('runs to its end in its folder, with its environment, and its log is there', async () => {
    const { id } = await daemon.submit({
      command: shell('echo "$WHO in $(pwd) with [$PLIMSOLL_TOKEN]"; echo trouble >&2'),
      memoryBytes: 64 * MiB,
      cwd: folder,
      env: { WHO: 'ada' },
    });
    const job = await ended(id);
    expect(job).toMatchObject({ state: 'succeeded', reason: '', gpus: 1 });
    expect(job.attempts).toMatchObject([{ number: 1, exitCode: 0 }]);
    expect(job.reservation).toEqual({ devices: ['host'], bytes: 64 * MiB, basis: 'stated' });
    expect(await logOf(id)).toBe(`ada in ${folder} with []\ntrouble\n`);
    expect(job.log.bytes).toBe((await logOf(id)).length);
    expect(statSync(join(home(), 'jobs', id, 'log')).mode & 0o777).toBe(0o600);
    const { bytes, size } = await daemon.readLog(id, 4, 2);
    expect([Buffer.from(bytes).toString(), size]).toEqual(['in', job.log.bytes]);
  });

  it('has the memory snapshots of its attempts explained', async () => {
    const left = join(folder, 'left.pickle');
    copyFileSync(new URL('../../../bench/truth/snapshots/oom.pickle.xz', import.meta.url), left);
    const dies = script(
      'dies.mjs',
      `import { createConnection } from 'node:net';
       const line = createConnection(process.env.PLIMSOLL_BRIDGE);
       line.write('{"type":"hello","rank":0,"world":1,"hooks":[]}\\n');
       line.write(JSON.stringify({ type: 'oom', id: 1, kind: 'cuda', message: 'full', microbatch: 1, batch: 1, snapshot: ${JSON.stringify(left)} }) + '\\n');
       line.once('data', () => process.exit(1));`,
    );
    const { id } = await daemon.submit({ command: [node, dies], memoryBytes: 256 * MiB });
    const [attempt] = (await ended(id)).attempts;
    expect(attempt?.snapshot?.file).toBe(left);
    expect(attempt?.snapshot?.findings[0]).toContain('asked for 96.0 MiB');
  });

  it('says how it failed', async () => {
    const failing = await daemon.submit({ command: shell('exit 3'), memoryBytes: 64 * MiB });
    const killed = await daemon.submit({ command: shell('kill -9 $$'), memoryBytes: 64 * MiB });
    expect(await ended(failing.id)).toMatchObject({
      state: 'failed',
      reason: 'It ended with exit code 3.',
    });
    expect(await ended(killed.id)).toMatchObject({
      state: 'failed',
      reason: 'It was ended by SIGKILL (exit code 137).',
    });
  });

  it('is held to its promise, and recovered with a smaller batch', async () => {
    // Node reserves more than a gigabyte of address space before it does anything.
    const [memoryBytes, batchSize] = canLimitByCgroup() ? [160 * MiB, 32] : [2048 * MiB, 256];
    const train = script(
      'train.mjs',
      `const batch = Number(process.argv[2]), accumulation = Number(process.argv[3]);
       const samples = Array.from({ length: batch }, () => Buffer.alloc(8 * 1024 * 1024, 1));
       console.log('trained', samples.length * accumulation);`,
    );
    const request = {
      command: [node, train, '{batch_size}', '{accumulation}'],
      memoryBytes,
      batch: batchSize,
    };
    const { id } = await daemon.submit(request);
    const job = await ended(id);
    expect(job.state).toBe('succeeded');
    expect(job.reason).toMatch(/^It ran out of memory .* and was recovered with batch \d+ x \d+/);
    expect(job.attempts.length).toBeGreaterThan(1);
    expect(job.attempts[0]?.outOfMemory).not.toBeNull();
    expect(await logOf(id)).toContain(`trained ${batchSize}\n`);
    // The same command without a figure is given what was measured: more than it had.
    const { need } = await daemon.submit({ ...request, memoryBytes: undefined });
    expect(need).toMatchObject({ basis: 'measured' });
    expect(need.bytes).toBeGreaterThan(memoryBytes);
    // An attempt that was over before anybody looked has no peak.
    expect(need.why).toMatch(/^Measured in \d+ runs?, \d+ of them out of memory/);
  });

  it('ends when it is cancelled, with all that it started', async () => {
    const { id } = await daemon.submit({
      command: shell('sleep 100 & echo ready; wait'),
      memoryBytes: 64 * MiB,
    });
    await until(() => (daemon.job(id).log.bytes > 0 ? true : undefined));
    expect(await daemon.cancel(id)).toMatchObject({ state: 'running' });
    expect(await ended(id)).toMatchObject({ state: 'cancelled', reason: 'Cancelled.' });
    await until(() => (livingWith(`TEST_MARK=${folder}`).length === 0 ? true : undefined));
  });

  it('does not begin any more when it is cancelled before its supervisor is there', async () => {
    const begun = join(folder, 'begun');
    const gate = join(folder, 'gate');
    await daemon.close();
    const wait = `while [ ! -e ${gate} ]; do sleep 0.05; done; exec "$@"`;
    daemon = await open({ command: ['sh', '-c', wait, 'sh', node, command.path()] });
    const { id } = await daemon.submit({
      command: shell(`echo yes > ${begun}; sleep 100`),
      memoryBytes: 64 * MiB,
    });
    await until(() => (daemon.job(id).state === 'running' ? true : undefined));
    await daemon.cancel(id);
    writeFileSync(gate, '');
    expect(await ended(id)).toMatchObject({ state: 'cancelled' });
    expect(existsSync(begun)).toBe(false);
  });

  it('is killed where it does not end when it is asked to', async () => {
    await daemon.close();
    let answered = false;
    daemon = await open({ clock: hurriedWhen(() => answered) });
    const { id } = await daemon.submit({
      command: shell('trap "echo no" TERM; echo ready; while true; do sleep 0.1; done'),
      memoryBytes: 64 * MiB,
    });
    await until(() => (daemon.job(id).log.bytes > 0 ? true : undefined));
    await daemon.cancel(id);
    await until(async () => ((await logOf(id)).includes('no\n') ? true : undefined));
    answered = true;
    const job = await ended(id);
    expect(job).toMatchObject({ state: 'cancelled', attempts: [{ exitCode: 137 }] });
  });

  it('outlives its supervisor, and is taken up again without a word lost or said twice', async () => {
    const gate = join(folder, 'gate');
    const lines = `for i in 1 2 3 4 5 6 7 8; do echo line $i; sleep 0.1; while [ $i = 6 -a ! -e ${gate} ]; do sleep 0.05; done; done`;
    const { id } = await daemon.submit({ command: shell(lines), memoryBytes: 64 * MiB });
    await until(() => (daemon.job(id).log.bytes > 10 ? true : undefined));
    const [run = ''] = runIds(home());
    const supervisor = supervisorOf(new RunFolder(home(), run).path, '/proc') ?? Number.NaN;
    process.kill(supervisor, 'SIGKILL');
    writeFileSync(gate, '');
    const job = await ended(id);
    expect(job).toMatchObject({ state: 'succeeded' });
    expect(job.attempts).toMatchObject([{ number: 1, exitCode: 0 }]);
    const printed = (await logOf(id)).split('\n').filter((line) => line.startsWith('line'));
    expect(printed).toEqual([1, 2, 3, 4, 5, 6, 7, 8].map((n) => `line ${n}`));
  });

  it('goes on while no daemon is there, and is found again', async () => {
    const gate = join(folder, 'gate');
    const { id } = await daemon.submit({
      command: shell(`echo begun; while [ ! -e ${gate} ]; do sleep 0.05; done; echo done`),
      memoryBytes: 64 * MiB,
    });
    await until(() => (daemon.job(id).log.bytes > 0 ? true : undefined));
    await daemon.close();
    daemon = await open();
    expect(daemon.job(id)).toMatchObject({ state: 'running' });
    writeFileSync(gate, '');
    expect(await ended(id)).toMatchObject({ state: 'succeeded' });
    expect(await logOf(id)).toBe('begun\ndone\n');
  });

  it('is taken back by a store that was put back from a backup; no id is given twice', async () => {
    const gate = join(folder, 'gate');
    const small = { memoryBytes: 64 * MiB };
    const store = join(home(), 'jobs.db');
    // In the backup it waits for a job that fills the machine; after it, it runs.
    const filling = await daemon.submit({
      command: shell(`while [ ! -e ${gate}1 ]; do sleep 0.05; done`),
      memoryBytes: daemon.devices()[0]?.availableBytes,
    });
    const queued = await daemon.submit({ command: shell('echo once'), ...small });
    await until(() => (daemon.job(filling.id).state === 'running' ? true : undefined));
    await daemon.close();
    copyFileSync(store, `${store}.backup`);
    daemon = await open();
    writeFileSync(`${gate}1`, '');
    await ended(filling.id);
    await ended(queued.id);
    const over = await daemon.submit({ command: shell('echo secret of ada'), ...small });
    await ended(over.id);
    const going = await daemon.submit({
      command: shell(`while [ ! -e ${gate}2 ]; do sleep 0.05; done; echo done`),
      ...small,
    });
    await until(() => (daemon.job(going.id).state === 'running' ? true : undefined));
    const never = await daemon.submit({
      command: shell('echo never'),
      memoryBytes: daemon.devices()[0]?.availableBytes,
      gpus: 0,
    });
    await daemon.cancel(never.id);
    await daemon.close();
    copyFileSync(`${store}.backup`, store);
    daemon = await open();
    expect(said).toEqual([
      'The store of jobs is older than the files beside it: it ends at job 2, and 5 was given out. Taken back: 3 jobs that had started. Lost: 1 job; submit again what had not run. The next job is 6: no id is given twice.',
    ]);
    expect(daemon.job(going.id)).toMatchObject({ state: 'running' });
    expect(daemon.devices()[0]?.reservations).toContainEqual(
      expect.objectContaining({ jobId: going.id, bytes: 64 * MiB }),
    );
    writeFileSync(`${gate}2`, '');
    for (const { id } of [filling, queued, over, going]) {
      expect(await ended(id)).toMatchObject({ state: 'succeeded', attempts: [{ exitCode: 0 }] });
    }
    expect(await logOf(queued.id)).toBe('once\n');
    const next = await daemon.submit({ command: shell('echo bob'), ...small });
    expect(next.id).toBe('6');
    expect(await ended(next.id)).toMatchObject({ state: 'succeeded' });
    expect(await logOf(next.id)).toBe('bob\n');
    await daemon.close();
    said = [];
    daemon = await open();
    expect(said).toEqual([]);
  });

  it('sees all of the GPUs it was given, and no others', async () => {
    await daemon.close();
    discovery.close();
    discovery = await discoverDevices({ simulate: { scenario: 'steady', gpus: 3 } });
    daemon = await open({}, { useGpus: true, devices: ['gpu:1', 'gpu:2'] });
    const say = 'echo "$CUDA_VISIBLE_DEVICES $PLIMSOLL_DEVICE $PLIMSOLL_TORCH_DEVICE"';
    const request = { command: shell(say), memoryBytes: 8 * 1024 * MiB };
    // Each takes more than half of what is free: the second starts when the first is gone.
    const two = await daemon.submit({ ...request, gpus: 2 });
    const none = await daemon.submit({ ...request, gpus: 0, memoryBytes: 64 * MiB });
    const again = await daemon.submit({ ...request, gpus: 2 });
    const three = await daemon.submit({ ...request, gpus: 3 });
    expect(three).toMatchObject({ state: 'refused' });
    for (const { id } of [two, again]) {
      expect(await ended(id)).toMatchObject({ state: 'succeeded' });
      expect(await logOf(id)).toBe('1,2 gpu:1 cuda:0\n');
    }
    expect(daemon.job(two.id).reservation?.devices).toEqual(['gpu:1', 'gpu:2']);
    expect(await ended(none.id)).toMatchObject({ reservation: { devices: ['host'] } });
    expect(await logOf(none.id)).toBe(' host cpu\n');
  });

  it('fails where no supervisor stays with it, and nothing of it is left', async () => {
    await daemon.close();
    const broken = script('broken.mjs', 'console.error("no"); process.exit(9);');
    daemon = await open({ command: [node, broken], clock: hurried(20) });
    const { id } = await daemon.submit({ command: shell('true'), memoryBytes: 64 * MiB });
    expect(await ended(id)).toMatchObject({ state: 'failed' });
    expect(daemon.job(id).reason).toMatch(
      /^Its supervisor ended 5 times in a row before anything happened, the last time with exit code 9/,
    );
    expect(await logOf(id)).toBe('no\n'.repeat(5));
  });
});

describe('a run whose files were removed', () => {
  /** A job that runs, and whose supervisor is gone. */
  async function orphan(): Promise<{ id: string; run: string; end: () => string }> {
    const [begun, gate] = [join(folder, 'begun'), join(folder, 'gate')];
    const text = `echo x >> ${begun}; while [ ! -e ${gate} ]; do sleep 0.05; done; echo y >> ${begun}`;
    const { id } = await daemon.submit({ command: shell(text), memoryBytes: 100 * MiB, gpus: 0 });
    await until(() => (existsSync(begun) ? true : undefined));
    const [run = ''] = runIds(home());
    await daemon.close();
    const supervisor = supervisorOf(join(home(), 'runs', run), '/proc') ?? 0;
    process.kill(supervisor, 'SIGKILL');
    await until(() =>
      supervisorOf(join(home(), 'runs', run), '/proc') === undefined ? true : undefined,
    );
    const end = () => {
      writeFileSync(gate, '');
      return begun;
    };
    return { id, run, end };
  }

  /** Its drainer may be making a file in it: then it is not empty, and all of it is removed again. */
  const removeFolder = (run: string): void => {
    try {
      rmSync(run, { recursive: true });
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'ENOTEMPTY')) throw error;
      removeFolder(run);
    }
  };

  it.each([
    ['the folder', removeFolder],
    [
      'all that it held',
      (run: string) => {
        removeFolder(run);
        mkdirSync(run);
      },
    ],
  ])(
    'is not begun again without %s: its job goes on, and its end is unknown',
    async (_, remove) => {
      const { id, run, end } = await orphan();
      remove(join(home(), 'runs', run));
      daemon = await open();
      const begun = end();
      const job = await ended(id);
      expect(job).toMatchObject({
        state: 'failed',
        reason: expect.stringContaining('was removed'),
      });
      expect(readFileSync(begun, 'utf8')).toBe('x\ny\n');
      expect(leftCgroups([run])).toEqual([]);
    },
  );

  it.each([
    ['folder', (path: string) => mkdirSync(path)],
    ['named pipe', (path: string) => execFileSync('mkfifo', [path])],
  ])('is left to itself where its journal is a %s, and its end is unknown', async (_, make) => {
    const { id, run, end } = await orphan();
    const journal = join(home(), 'runs', run, 'journal.jsonl');
    rmSync(journal);
    make(journal);
    const socket = join(home(), 'runs', run, 'bridge.sock');
    expect(existsSync(socket)).toBe(true);
    daemon = await open();
    const begun = end();
    expect(await ended(id)).toMatchObject({
      state: 'failed',
      reason: expect.stringContaining('not a plain file'),
    });
    expect(readFileSync(begun, 'utf8')).toBe('x\ny\n');
    expect(leftCgroups([run])).toEqual([]);
    expect(existsSync(socket)).toBe(false);
  });

  const removeAll = (names: readonly string[]) => (run: string) => {
    for (const name of names) rmSync(join(run, name));
  };
  const replaceJournal = (text: string) => (run: string) =>
    writeFileSync(join(run, 'journal.jsonl'), text);
  it.each([
    ['without its journal', removeAll(['journal.jsonl'])],
    ['without the pid of its keeper', removeAll(['attempt-1.keeper'])],
    ['without both', removeAll(['journal.jsonl', 'attempt-1.keeper', 'attempt-1.pid'])],
    ['with a journal that holds "null" and no end of line', replaceJournal('null')],
    ['with a journal that holds a line of "null"', replaceJournal('null\n')],
    ['with an empty journal', replaceJournal('')],
  ])('is taken up %s: its job goes on, once, to its end', async (_, damage) => {
    const { id, run, end } = await orphan();
    damage(join(home(), 'runs', run));
    daemon = await open();
    // Taken up, and not launched again, before it ends.
    await until(() => (daemon.job(id).currentAttempt === null ? undefined : true));
    const begun = end();
    expect(await ended(id)).toMatchObject({ state: 'succeeded', attempts: [{ exitCode: 0 }] });
    expect(readFileSync(begun, 'utf8')).toBe('x\ny\n');
    expect(leftCgroups([run])).toEqual([]);
  });
});

describe('a job that forks without end', () => {
  it('is gone after it was cancelled, with its limit', needsCgroups, async () => {
    const pids = join(folder, 'pids');
    // Each forks the next and ends: no list of all processes ever holds the newest.
    const program = script(
      'chain.py',
      `import os, sys, time
for chain in range(4):
    if os.fork() == 0:
        os.setsid()
        open(${JSON.stringify(pids)}, 'a').write('x')
        deadline = time.time() + 60
        while time.time() < deadline:
            if os.fork() != 0:
                os._exit(0)
time.sleep(60)
`,
    );
    const submitted = { command: ['python3', program], memoryBytes: 200 * MiB, gpus: 0 };
    const { id } = await daemon.submit(submitted);
    await until(() => (existsSync(pids) && statSync(pids).size === 4 ? true : undefined));
    const [run = ''] = runIds(home());
    await daemon.cancel(id);
    expect((await ended(id)).state).toBe('cancelled');
    expect(leftCgroups([run])).toEqual([]);
  });
});
