import { spawn } from 'node:child_process';
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
import { needsOtherAccounts } from '../support/needs.js';
import { cleanEnvironment, type Ended, useCommand } from './command.js';
import { type Home, type Serving, useHome } from './served.js';

const command = useCommand();
/** Accounts of every Linux, and a uid that has none. */
const accounts = { nobody: 65_534, daemon: 1, nameless: 54_321 } as const;
type AccountName = keyof typeof accounts;

beforeAll(() => chmodSync(dirname(command.folder()), 0o755));

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
