import { execFileSync, spawn } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { until } from '../run/running.js';
import { needsOtherAccounts, needsRoot } from '../support/needs.js';
import { cleanEnvironment, type Ended, useCommand } from './command.js';
import { type Home, type Serving, useHome } from './served.js';

const command = useCommand();
// Other accounts start the command.
beforeAll(() => chmodSync(dirname(command.folder()), 0o755));

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

/** Accounts of every Linux, and a uid that has none. */
const accounts = { nobody: 65_534, daemon: 1, nameless: 54_321 } as const;
type AccountName = keyof typeof accounts;

/** Runs the command as another account, which has a home of its own and no token. */
async function runAs(
  account: AccountName,
  argv: readonly string[],
  environment: Readonly<Record<string, string>>,
): Promise<Ended> {
  const uid = accounts[account];
  const own = mkdtempSync(join(tmpdir(), 'plimsoll-account-'));
  onTestFinished(() => rmSync(own, { recursive: true, force: true }));
  chownSync(own, uid, uid);
  const become = ['setpriv', `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups', '--'];
  const [program = '', ...words] = [...become, process.execPath, command.path(), ...argv];
  const child = spawn(program, words, {
    cwd: own,
    env: cleanEnvironment({ PLIMSOLL_HOME: join(own, 'home'), HOME: own, ...environment }),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (data) => {
    stdout += String(data);
  });
  child.stderr.on('data', (data) => {
    stderr += String(data);
  });
  const exitCode = await new Promise<number>((resolve) => {
    child.once('close', (code) => resolve(code ?? 128));
  });
  return { stdout, stderr, exitCode };
}

interface Shared {
  readonly home: Home;
  readonly socket: string;
  readonly serving: Serving;
  readonly as: (account: AccountName, ...argv: readonly string[]) => Promise<Ended>;
}

async function serveAll(...argv: readonly string[]): Promise<Shared> {
  const home = useHome(command);
  const folder = mkdtempSync(join(tmpdir(), 'plimsoll-shared-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  chmodSync(folder, 0o755);
  const socket = join(folder, 'server.sock');
  const cache = join(folder, 'huggingface');
  const snapshot = join(cache, 'hub/models--evil--link/snapshots', 'a'.repeat(40));
  mkdirSync(snapshot, { recursive: true });
  const secret = join(home.path, 'secret');
  writeFileSync(secret, 'secret of root', { mode: 0o600 });
  symlinkSync(secret, join(snapshot, 'config.json'));
  const serving = await home.serve(['--local-users', '--socket', socket, ...argv], {
    USE_GPU: 'false',
    HF_HOME: cache,
  });
  const as = (account: AccountName, ...words: readonly string[]) =>
    runAs(account, words, { PLIMSOLL_SOCKET: socket });
  return { home, socket, serving, as };
}

const submit = ['submit', '--json', '--gpus', '0', '--memory', '64MiB'];

describe(
  'accounts of this machine, at the socket of a server that is root',
  needsOtherAccounts,
  () => {
    it('run jobs as themselves without a token, and have only their own', async () => {
      const { home, socket, serving, as } = await serveAll();
      expect(serving.ready).toMatchObject({ socket });
      const id = 'id -u; id -ru; id -G; echo "$SECRET"';
      const submitted = await as('nobody', ...submit, '--env', 'SECRET=mine', '--', 'sh', '-c', id);
      expect([submitted.exitCode, submitted.stderr]).toEqual([0, '']);
      expect(JSON.parse(submitted.stdout)).toMatchObject({ id: '1', owner: 'nobody@local' });
      const log = await until(async () => {
        const { stdout } = await as('nobody', 'logs', '-f', '1');
        return stdout === '' ? undefined : stdout;
      });
      expect(log).toBe('65534\n65534\n65534\nmine\n');

      // Another account sees that it is there, and nothing of what it printed.
      const other = await as('daemon', 'logs', '1');
      expect([other.exitCode, other.stderr]).toEqual([2, expect.stringContaining('not-your-job')]);
      const long = await as('daemon', ...submit, '--', 'sleep', '600');
      expect(JSON.parse(long.stdout)).toMatchObject({ id: '2', owner: 'daemon@local' });
      const stopped = await as('nobody', 'cancel', '2');
      expect([stopped.exitCode, stopped.stderr]).toEqual([
        2,
        expect.stringContaining('not-your-job'),
      ]);
      expect((await as('daemon', 'cancel', '2')).exitCode).toBe(0);
      // It runs as another account, out of reach of what clears up after a test.
      const stateOf = async () =>
        JSON.parse((await as('daemon', 'jobs', '2', '--json')).stdout).state;
      await until(async () => ((await stateOf()) === 'cancelled' ? true : undefined));

      // Root reads no files for others, and a name in a request changes nothing.
      const files = await as(
        'nobody',
        ...submit.slice(0, 4),
        '--model',
        '/etc/passwd',
        '--batch',
        '1',
        '--',
        'true',
      );
      expect([files.exitCode, files.stderr]).toEqual([2, expect.stringContaining('not-as-root')]);
      // Nor through a link that another account put into a cache that all can write.
      const linked = await as(
        'nobody',
        ...submit.slice(0, 4),
        '--model',
        'evil/link',
        '--batch',
        '1',
        '--',
        'true',
      );
      expect([linked.exitCode, linked.stderr]).toEqual([
        2,
        expect.stringContaining('unknown-model'),
      ]);
      expect(linked.stderr).not.toContain('secret of root');

      const audit = await home.run(['users', 'audit', '--json']);
      expect(JSON.parse(audit.stdout)).toMatchObject({
        entries: expect.arrayContaining([
          expect.objectContaining({
            who: 'nobody@local',
            via: 'socket',
            from: 'uid 65534',
            action: 'submit',
            job: '1',
          }),
          expect.objectContaining({ who: 'nobody@local', action: 'cancel', code: 'not-your-job' }),
        ]),
      });
    });

    it('are the user that was added for the account, and nobody without a name', async () => {
      const { home, serving, as, socket } = await serveAll();
      const added = ['users', 'add', 'vic', '--role', 'viewer', '--account', 'nobody'];
      expect((await home.run(added)).exitCode).toBe(0);
      expect((await as('nobody', 'jobs')).exitCode).toBe(0);
      const refused = await as('nobody', ...submit, '--', 'true');
      expect([refused.exitCode, refused.stderr]).toEqual([
        2,
        expect.stringMatching(/^plimsoll: role-not-allowed: vic is a viewer/),
      ]);
      const changed = ['users', 'change', 'vic', '--role', 'user', '--max-memory', '1MiB'];
      expect((await home.run(changed)).exitCode).toBe(0);
      const tooLarge = await as('nobody', ...submit, '--', 'true');
      expect(JSON.parse(tooLarge.stdout)).toMatchObject({ owner: 'vic', state: 'refused' });

      const nameless = await as('nameless', 'jobs');
      expect([nameless.exitCode, nameless.stderr]).toEqual([
        2,
        expect.stringMatching(/^plimsoll: not-a-local-user: .* no account with uid 54321/),
      ]);
      // The socket alone: over the network an account is a stranger as before.
      const byPort = await runAs('nobody', ['jobs'], { PLIMSOLL_SERVER: serving.url });
      expect(byPort.stderr).toMatch(/^plimsoll: no-token: /);
      // A wrong token is not helped by an account.
      const wrong = await runAs('daemon', ['jobs'], {
        PLIMSOLL_SOCKET: socket,
        PLIMSOLL_TOKEN: 'a-token-that-is-wrong',
      });
      expect(wrong.stderr).toMatch(/^plimsoll: server-unproven: /);
    });

    it('open the page as themselves', async () => {
      const { serving, as } = await serveAll();
      const { stdout } = await as('daemon', 'dashboard');
      const link = new URL(stdout.trim());
      expect(link.origin).toBe(serving.url);
      const login = await fetch(`${serving.url}/session`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ code: link.hash.replace('#login=', '') }),
      });
      const cookie = login.headers.get('set-cookie')?.split(';')[0] ?? '';
      const who = await fetch(`${serving.url}/session`, { headers: { cookie } });
      expect(await who.json()).toMatchObject({ name: 'daemon@local', role: 'user' });
    });

    it('cannot reach the socket of a server that does not allow them', async () => {
      const home = useHome(command);
      const { ready } = await home.serve();
      const socket = join(home.path, 'server.sock');
      expect(ready).toMatchObject({ socket });
      expect(statSync(socket).mode & 0o777).toBe(0o600);
      const refused = await runAs('nobody', ['jobs'], { PLIMSOLL_SOCKET: socket });
      expect([refused.exitCode, refused.stderr]).toEqual([
        3,
        expect.stringMatching(/^plimsoll: server-unreachable: No server answers at .*EACCES/),
      ]);
      // Also where somebody opened the way to it.
      for (const path of [home.path, socket]) chmodSync(path, 0o777);
      chmodSync(home.path, 0o755);
      const answer = await runAs('nobody', ['jobs'], { PLIMSOLL_SOCKET: socket });
      expect(answer.stderr).toMatch(/^plimsoll: not-a-local-user: .* is for its owner/);
    });
  },
);

describe('the socket of a server', () => {
  it('knows its owner without a token, and goes with the server', async () => {
    const home = useHome(command);
    const serving = await home.serve();
    const socket = join(home.path, 'server.sock');
    const elsewhere = { PLIMSOLL_HOME: join(home.path, 'elsewhere') };
    const submitted = await command.run(
      [...submit, '--socket', socket, '--wait', '--', 'echo', 'hello'],
      { environment: elsewhere },
    );
    expect(submitted.exitCode).toBe(0);
    const log = await command.run(['logs', '1', '--socket', socket], { environment: elsewhere });
    expect(log.stdout).toBe('hello\n');
    serving.kill('SIGTERM');
    await serving.ended;
    expect(existsSync(socket)).toBe(false);
    const gone = await command.run(['jobs', '--socket', socket], { environment: elsewhere });
    expect([gone.exitCode, gone.stderr]).toEqual([
      3,
      expect.stringMatching(/^plimsoll: server-unreachable: No server answers at \/.*ENOENT/),
    ]);
  });

  it('is in the way of no server that was killed, and holds up none where it cannot be', async () => {
    const home = useHome(command);
    const first = await home.serve();
    first.kill('SIGKILL');
    await first.ended;
    const socket = join(home.path, 'server.sock');
    expect(existsSync(socket)).toBe(true);
    const second = await home.serve();
    expect(second.ready).toMatchObject({ socket });
    const taken = await useHome(command).run(['serve', '--port', '0', '--socket', socket]);
    expect([taken.exitCode, taken.stderr]).toEqual([
      2,
      expect.stringMatching(/^plimsoll: socket-in-use: /),
    ]);
    const long = useHome(command);
    const deep = join(long.path, 'x'.repeat(110));
    const third = await long.serve([], { PLIMSOLL_HOME: deep });
    expect(third.ready).toMatchObject({ socket: null });
    const said = await until(() => (third.stderr().includes('\n') ? third.stderr() : undefined));
    expect(said).toMatch(/^plimsoll: The server cannot listen at .* at most 103 bytes/);
  });

  const contradictions: readonly (readonly [readonly string[], string])[] = [
    [['--local-users', '--no-token'], 'bad-option: --no-token and --local-users'],
    [['--socket', ''], 'bad-option: --socket cannot be ""'],
  ];
  it.each(contradictions)('is refused: %j', async (argv, message) => {
    const { stderr, exitCode } = await useHome(command).run(['serve', '--port', '0', ...argv]);
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining(message)]);
  });
});
