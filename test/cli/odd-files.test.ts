import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { describe, expect, it } from 'vitest';
import { textOf, until } from '../run/running.js';
import { cleanEnvironment, useCommand } from './command.js';
import { type Home, useHome } from './served.js';

const command = useCommand();

function makePipe(path: string): void {
  expect(spawnSync('mkfifo', [path]).status).toBe(0);
}

/** What may stand where a file of ours should be. */
const odd: Readonly<Record<string, (path: string) => void>> = {
  nothing: (path) => writeFileSync(path, ''),
  null: (path) => writeFileSync(path, 'null\n'),
  'an empty object': (path) => writeFileSync(path, '{}\n'),
  'a list': (path) => writeFileSync(path, '[1]\n'),
  'half an object': (path) => writeFileSync(path, '{"schema":1,"type":"ended","attempt":null'),
  'a named pipe': makePipe,
  'a folder': (path) => mkdirSync(path),
};

const settings = { accumulation: 1, precision: 'fp32', device: 'host', batch_size: 'unknown' };
const plan = (id: string, path: string) => ({
  schema: 1,
  id,
  command: ['true'],
  folder: '/',
  createdAt: '2026-01-01T00:00:00.000Z',
  settings,
  memoryBytes: null,
  maxAttempts: 1,
  pinnedDevice: false,
  bridge: join(path, 'bridge.sock'),
  reports: [],
});
const finished = `${JSON.stringify({ type: 'finished', at: '', outcome: 'succeeded', exitCode: 0 })}\n`;

/** A finished run, with one of its files replaced. */
function oddRun(home: string, at: number, name: string, write: (path: string) => void): string {
  const id = `20260101-000000${String(at).padStart(3, '0')}-0000`;
  const path = join(home, 'runs', id);
  mkdirSync(path, { recursive: true });
  const whole: Readonly<Record<string, string>> = {
    'run.json': JSON.stringify(plan(id, path)),
    'journal.jsonl': finished,
    'report.json': '{}',
    'supervisor-1': JSON.stringify({ pid: 2 ** 22 - 1, started: 1 }),
  };
  for (const [file, text] of Object.entries(whole)) {
    if (file === name) write(join(path, file));
    else writeFileSync(join(path, file), text);
  }
  return id;
}

function namesIn(path: string): readonly string[] {
  return readdirSync(path, { recursive: true, encoding: 'utf8' }).toSorted();
}

describe('files in the home that are not what we wrote', () => {
  it('break no later run, and each is one clear error to who asks for it', async () => {
    const home = useHome(command);
    const files = ['run.json', 'journal.jsonl', 'report.json', 'supervisor-1'];
    let at = 0;
    const asked = files.flatMap((file) =>
      Object.entries(odd).map(([what, write]) => ({
        file,
        what,
        id: oddRun(home.path, at++, file, write),
      })),
    );
    const before = namesIn(join(home.path, 'runs'));
    const ended = await home.run(['run', '--', 'sh', '-c', 'echo hello; exit 7']);
    expect(ended).toEqual({ stdout: 'hello\n', stderr: '', exitCode: 7 });
    const after = namesIn(join(home.path, 'runs'));
    expect(before.filter((name) => !after.includes(name))).toEqual([]);

    for (const { file, what, id } of asked) {
      if (file !== 'run.json' && file !== 'report.json') continue;
      const attached = await home.run(['run', '--attach', id]);
      expect([file, what, attached.exitCode, attached.stderr]).toEqual([
        file,
        what,
        2,
        expect.stringMatching(
          new RegExp(`^plimsoll: damaged-run: .*/${id}/${file} is damaged\\. If .*\\n$`),
        ),
      ]);
    }
  });

  it('are refused where a newer version wrote them, and stay as they are', async () => {
    const home = useHome(command);
    const newer = JSON.stringify({ schema: 2, type: 'finished' });
    const files = ['run.json', 'journal.jsonl', 'report.json', 'supervisor-1'];
    for (const [at, file] of files.entries()) {
      const id = oddRun(home.path, at, file, (path) => writeFileSync(path, `${newer}\n`));
      if (file === 'supervisor-1') rmSync(join(home.path, 'runs', id, 'journal.jsonl'));
      const { exitCode, stderr } = await home.run(['run', '--attach', id]);
      expect([file, exitCode, stderr]).toEqual([
        file,
        2,
        expect.stringMatching(
          /^plimsoll: newer-file: .* was written by a newer plimsoll: its schema is 2, and this version reads up to 1\. Use that version/,
        ),
      ]);
      expect(readFileSync(join(home.path, 'runs', id, file), 'utf8')).toBe(`${newer}\n`);
    }
    expect((await home.run(['run', '--', 'true'])).exitCode).toBe(0);
    writeFileSync(join(home.path, 'server.json'), newer);
    expect((await home.run(['jobs'])).stderr).toContain('newer-file');
  });

  it('do not make a command wait: a named pipe for the store, the token, the address', async () => {
    const home = useHome(command);
    makePipe(join(home.path, 'jobs.db'));
    const served = await home.run(['serve', '--port', '0']);
    expect([served.exitCode, served.stderr]).toEqual([
      2,
      expect.stringMatching(/^plimsoll: foreign-store: .*jobs\.db is not a store of plimsoll/),
    ]);
    rmSync(join(home.path, 'token'));
    makePipe(join(home.path, 'token'));
    expect((await home.run(['serve', '--port', '0'])).stderr).toContain('it is not a plain file');
    makePipe(join(home.path, 'server.json'));
    expect((await home.run(['jobs'])).stderr).toContain('server-unreachable');
  });
});

describe('a folder that was removed', () => {
  const removed = /^plimsoll: no-current-folder: The current folder was removed\. Change to a/;
  it.each([
    ['devices', [], removed],
    ['run', ['--', 'true'], removed],
    ['submit', ['--', 'true'], removed],
    ['plan', ['model', '--memory', '1GiB'], removed],
    // It needs no folder.
    ['jobs', [], /^plimsoll: server-unreachable: /],
  ])('is named by %s where it needs one', (name, rest, expected) => {
    const home = useHome(command);
    const gone = mkdtempSync(join(command.folder(), 'gone-'));
    const line = `cd '${gone}' && rmdir '${gone}' && exec "$@"`;
    const { status, stderr } = spawnSync(
      'sh',
      ['-c', line, 'sh', process.execPath, command.path(), name, ...rest],
      { env: cleanEnvironment({ PLIMSOLL_HOME: home.path }), encoding: 'utf8' },
    );
    expect(stderr).toMatch(expected);
    expect([2, 3]).toContain(status);
  });
});

describe('a low limit of open files', () => {
  // The first ones end before the program is read, the others while it is.
  it.each([20, 26, 34])('of %i is named where the program needs more', (limit) => {
    const { status, stderr } = spawnSync(
      'sh',
      ['-c', `ulimit -n ${limit} && exec "$@"`, 'sh', process.execPath, command.path(), 'devices'],
      { env: cleanEnvironment({ PLIMSOLL_HOME: command.folder() }), encoding: 'utf8' },
    );
    // What is opened at the same time is not the same each time.
    if (status === 0) return;
    expect([status, stderr]).toEqual([
      3,
      'plimsoll: too-many-files: No more files can be opened: the limit of open files is reached. Allow more with "ulimit -n 1024", or close other programs.\n',
    ]);
  });
});

describe('a PATH without a shell', () => {
  it('runs a program that is named by its path', async () => {
    const ended = await useHome(command).run(['run', '--', '/bin/echo', 'hello'], {
      environment: { PATH: '/nowhere' },
    });
    expect(ended).toEqual({ stdout: 'hello\n', stderr: '', exitCode: 0 });
  });
});

const submitted = (home: Home, argv: readonly string[]) =>
  home.run(['submit', '--memory', '64MiB', ...argv]);

async function endOf(home: Home, id: string): Promise<Readonly<Record<string, unknown>>> {
  return await until(async () => {
    const job = await home.json(['jobs', id]);
    return ['waiting', 'running'].includes(String(job['state'])) ? undefined : job;
  });
}

describe('a server with odd files in its home', () => {
  it('fails a job whose folder was removed while it waited, and says so', async () => {
    const home = useHome(command);
    await home.serve([], { MAX_CONCURRENT_JOBS: '1' });
    const go = join(command.folder(), 'go-folder');
    const folder = mkdtempSync(join(command.folder(), 'cwd-'));
    await submitted(home, ['--', 'sh', '-c', `until [ -e '${go}' ]; do sleep 0.05; done`]);
    await submitted(home, ['--cwd', folder, '--', 'true']);
    await submitted(home, ['--', 'true']);
    rmdirSync(folder);
    writeFileSync(go, '');
    expect(await endOf(home, '2')).toMatchObject({
      state: 'failed',
      reason: `The folder ${folder}, in which the program should start, no longer exists. Create it again, or choose another folder, and start the program again.`,
    });
    expect(await endOf(home, '3')).toMatchObject({ state: 'succeeded' });
    expect(textOf(join(home.path, 'jobs', '2', 'log'))).toBe(
      `plimsoll: no-such-folder: The folder ${folder}, in which the program should start, no longer exists. Create it again, or choose another folder, and start the program again.\n`,
    );
  });

  it('keeps no job while "jobs" is a file, and does not start with one', async () => {
    const home = useHome(command);
    const { ask, ...served } = await home.serve();
    const jobs = join(home.path, 'jobs');
    rmSync(jobs, { recursive: true, force: true });
    writeFileSync(jobs, 'mine');
    const refused = await submitted(home, ['--', 'true']);
    expect(refused.exitCode).toBe(3);
    expect(refused.stderr).toMatch(/^plimsoll: cannot-keep-state: The folder .*\/jobs cannot be/);
    expect(await (await ask('/jobs')).json()).toMatchObject({ jobs: [] });
    served.kill('SIGTERM');
    await served.ended;
    const again = await home.run(['serve', '--port', '0']);
    expect([again.exitCode, again.stderr]).toEqual([
      3,
      expect.stringMatching(/cannot-keep-state: .*\/jobs cannot be made: .* Move away what has/),
    ]);
    expect(readFileSync(jobs, 'utf8')).toBe('mine');
  });

  it('shows a job whose row is damaged as failed, and goes on with the others', async () => {
    const home = useHome(command);
    const first = await home.serve([], { MAX_CONCURRENT_JOBS: '1' });
    const go = join(command.folder(), 'go-rows');
    await submitted(home, ['--wait', '--', 'true']);
    await submitted(home, ['--', 'sh', '-c', `until [ -e '${go}' ]; do sleep 0.05; done`]);
    for (let job = 3; job <= 6; job++) await submitted(home, ['--', 'true']);
    first.kill('SIGTERM');
    await first.ended;
    const database = new DatabaseSync(join(home.path, 'jobs.db'));
    for (const [column, value, id] of [
      ['command', 'null', 1],
      ['command', '{}', 3],
      ['details', '', 4],
      ['basis', 'guess', 5],
    ] as const) {
      database.prepare(`UPDATE job SET ${column} = ? WHERE sequence = ?`).run(value, id);
    }
    database.close();
    const { ask } = await home.serve([], { MAX_CONCURRENT_JOBS: '1' });
    writeFileSync(go, '');
    expect(await endOf(home, '2')).toMatchObject({ state: 'succeeded' });
    expect(await endOf(home, '6')).toMatchObject({ state: 'succeeded' });
    const list = await ask('/jobs');
    expect(list.status).toBe(200);
    expect(await list.json()).toMatchObject({ jobs: { length: 6 } });
    for (const [id, column] of [
      ['1', 'command'],
      ['3', 'command'],
      ['4', 'details'],
      ['5', 'basis'],
    ]) {
      const answer = await ask(`/jobs/${id}`);
      expect([id, answer.status]).toEqual([id, 200]);
      expect(await answer.json()).toMatchObject({
        state: 'failed',
        reason: `Its row in the store is damaged (${column}): it cannot be run or shown. Submit it again.`,
      });
    }
    expect(existsSync(join(home.path, 'jobs', '3'))).toBe(false);
  });
});
