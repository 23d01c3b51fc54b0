import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { until } from '../run/running.js';
import { needsRoot } from '../support/needs.js';
import { useCommand } from './command.js';
import { useHome } from './served.js';

const command = useCommand();

interface Answer {
  readonly token: string;
  readonly users: readonly { readonly name: string }[];
  readonly entries: readonly { readonly who: string; readonly action: string }[];
}

/** Where the tests run as root, the server does, too, and must be told what jobs run as. */
const asRoot = ['--account', 'root'];

describe('users of a real server', () => {
  it('have roles, own jobs and quotas, which change while it runs', async () => {
    const home = useHome(command);
    const users = async (...argv: readonly string[]): Promise<Answer> => {
      const { stdout, stderr } = await home.run(['users', ...argv, '--json']);
      if (stdout === '') throw new Error(stderr);
      return JSON.parse(stdout);
    };
    const serving = await home.serve([], { USE_GPU: 'false' });
    const [ada, bob, vic] = [
      (await users('add', 'ada', ...asRoot, '--max-jobs', '1', '--max-memory', '60MiB')).token,
      (await users('add', 'bob', ...asRoot)).token,
      (await users('add', 'vic', '--role', 'viewer')).token,
    ];
    expect(statSync(join(home.path, 'users.db')).mode & 0o777).toBe(0o600);
    // Far from the home of the server, with nothing but the token.
    const as = (token: string, ...argv: readonly string[]) =>
      command.run(argv, {
        environment: {
          PLIMSOLL_HOME: join(home.path, 'elsewhere'),
          PLIMSOLL_SERVER: serving.url,
          PLIMSOLL_TOKEN: token,
        },
      });
    const submitting = ['submit', '--json', '--gpus', '0', '--memory'];
    const submit = async (token: string, memory: string, ...program: readonly string[]) => {
      const { stdout } = await as(token, ...submitting, memory, '--', ...program);
      const job: { id: string; state: string; owner: string; reason: string } = JSON.parse(stdout);
      return job;
    };
    const first = await submit(ada, '20MiB', 'sh', '-c', 'echo private; sleep 600');
    expect(first).toMatchObject({ id: '1', owner: 'ada', state: 'waiting' });
    await until(async () => ((await stateOf('1')) === 'running' ? true : undefined));
    const second = await submit(ada, '20MiB', 'sleep', '600');
    expect(await waitingOf(second.id)).toMatch(/^Quota: ada may run 1 job at the same time/);
    const tooLarge = await submit(ada, '61MiB', 'true');
    expect([tooLarge.state, tooLarge.reason]).toEqual([
      'refused',
      'It needs 61.0 MiB (stated); ada may reserve 60.0 MiB at the same time.',
    ]);

    for (const [token, code] of [
      [bob, 'not-your-job'],
      [vic, 'role-not-allowed'],
    ] as const) {
      for (const argv of [
        ['logs', '1'],
        ['cancel', '1'],
      ]) {
        const { exitCode, stderr, stdout } = await as(token, ...argv);
        expect([exitCode, stdout, stderr.split(':')[1]?.trim()]).toEqual([2, '', code]);
      }
    }
    expect((await as(vic, 'submit', '--', 'true')).stderr).toMatch(/role-not-allowed/);
    // A job runs from when it has its memory; its program begins, and prints, later.
    const log = await until(async () => (await as(ada, 'logs', '1')).stdout || undefined);
    expect(log).toBe('private\n');
    expect((await as(bob, 'jobs')).stdout).toMatch(/OWNER.*\n.*ada/);

    await users('change', 'ada', '--max-jobs', 'none');
    await until(async () => ((await stateOf('2')) === 'running' ? true : undefined));
    expect((await as(ada, 'cancel', '1', '2')).exitCode).toBe(0);
    await users('remove', 'ada');
    expect((await as(ada, 'jobs')).stderr).toMatch(/server-unproven/);
    const { entries } = await users('audit');
    const actions = entries.map(({ who, action }) => `${who} ${action}`);
    expect(actions).toContain('ada submit');
    expect(actions).toContain('bob cancel');
    expect(actions.at(-2)).toMatch(/ remove-user$/);
    expect(actions.at(-1)).toBe('unknown getProof');
    for (const id of ['1', '2']) {
      await until(async () => ((await stateOf(id)) === 'cancelled' ? true : undefined));
    }

    async function stateOf(id: string): Promise<string> {
      const job: { state: string } = JSON.parse(await (await serving.ask(`/jobs/${id}`)).text());
      return job.state;
    }
    async function waitingOf(id: string): Promise<string> {
      const job: { waiting: { why: string } | null } = JSON.parse(
        await (await serving.ask(`/jobs/${id}`)).text(),
      );
      return job.waiting?.why ?? '';
    }
  });

  it('have jobs run as their Unix account, and never as root by accident', needsRoot, async () => {
    const home = useHome(command);
    const work = mkdtempSync(join(tmpdir(), 'plimsoll-nobody-'));
    onTestFinished(() => rmSync(work, { recursive: true, force: true }));
    chmodSync(work, 0o777);
    const serving = await home.serve([], { USE_GPU: 'false', SECRET_OF_ROOT: 'secret' });
    const added = async (name: string, ...argv: readonly string[]): Promise<string> => {
      const { stdout } = await home.run(['users', 'add', name, ...argv, '--json']);
      const { token }: Answer = JSON.parse(stdout);
      return token;
    };
    const submit = (token: string, program: string, env: Readonly<Record<string, string>> = {}) =>
      fetch(`${serving.url}/jobs`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          command: ['sh', '-c', program],
          cwd: work,
          memoryBytes: 64 * 1024 * 1024,
          gpus: 0,
          env,
        }),
      });
    const ofNobody = await added('ada', '--account', 'nobody');
    const trap = join(work, 'mv');
    writeFileSync(trap, `#!/bin/sh\nid -u > ${work}/trap\n`, { mode: 0o755 });
    const answer = await submit(
      ofNobody,
      'id -u; id -ru; id -G; pwd; echo "$HOME $USER [$SECRET_OF_ROOT] $MINE"; cat /proc/self/cgroup; : > made; env | grep -c PLIMSOLL_BRIDGE',
      { MINE: 'mine', PATH: `${work}:${process.env['PATH']}`, LD_PRELOAD: '' },
    );
    expect(answer.status).toBe(201);
    const ended = await until(async () => {
      const job: {
        state: string;
        reason: string;
        attempts: readonly { limit: { by: string } }[];
      } = JSON.parse(await (await serving.ask('/jobs/1')).text());
      return ['succeeded', 'failed'].includes(job.state) ? job : undefined;
    });
    const log = await (await serving.ask('/jobs/1/log')).text();
    const nobody = execFileSync('id', ['-u', 'nobody'], { encoding: 'utf8' }).trim();
    const groups = execFileSync('id', ['-G', 'nobody'], { encoding: 'utf8' }).trim();
    expect(log.split('\n').slice(0, 4)).toEqual([nobody, nobody, groups, work]);
    expect(log).toContain('nobody [] mine\n');
    // Its memory is limited by the same cgroup as any other job's.
    const [attempt] = ended.attempts;
    if (attempt?.limit.by.startsWith('cgroup')) expect(log).toContain('-job1-1');
    expect(statSync(join(work, 'made')).uid).toBe(Number(nobody));
    // No shell of root looked for its programs where the job said.
    expect(existsSync(join(work, 'trap'))).toBe(false);
    expect(ended).toMatchObject({ state: 'succeeded' });

    const without = await submit(await added('bob'), 'id -u');
    expect([without.status, await without.text()]).toEqual([
      403,
      expect.stringContaining('no-account'),
    ]);
    const unknown = await submit(await added('eve', '--account', 'no-such-account'), 'id -u');
    expect(unknown.status).toBe(403);
    const script = await fetch(`${serving.url}/estimate`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ofNobody}`, 'content-type': 'application/json' },
      body: JSON.stringify({ script: '/tmp/x.py' }),
    });
    expect([script.status, await script.text()]).toEqual([
      403,
      expect.stringContaining('not-as-root'),
    ]);
  });

  it('are all there when many commands add them at once', async () => {
    const home = useHome(command);
    const names = ['a', 'b', 'c', 'd'];
    const ended = await Promise.all(
      [...names, 'a'].map((name) => home.run(['users', 'add', name, '--json'])),
    );
    expect(ended.map(({ exitCode }) => exitCode).toSorted((a, b) => a - b)).toEqual([
      0, 0, 0, 0, 2,
    ]);
    const { stdout } = await home.run(['users', 'list', '--json']);
    const { users }: Answer = JSON.parse(stdout);
    expect(users.map(({ name }) => name)).toEqual(names);
    expect((await home.run(['users', 'audit'])).stdout.match(/add-user/g)).toHaveLength(4);
  });

  it.each([
    [['add', 'a b'], 'bad-user-name'],
    [['add', 'owner'], 'bad-user-name'],
    [['add', 'unknown'], 'bad-user-name'],
    [['add', 'ada', '--role', 'boss'], 'bad-option'],
    [['add', 'ada', '--max-memory', 'much'], 'bad-option'],
    [['change', 'nobody-here', '--role', 'admin'], 'unknown-user'],
  ])('refuses %j with %s', async (argv, code) => {
    const home = useHome(command);
    const { exitCode, stderr } = await home.run(['users', ...argv]);
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining(`plimsoll: ${code}:`)]);
  });
});
