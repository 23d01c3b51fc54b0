import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { root } from '../support/project-files.js';
import { useCommand } from './command.js';
import { useHome } from './served.js';

const command = useCommand();
const config = join(root, 'bench/truth/configs/gpt2.json');

describe('plimsoll serve', () => {
  it('tells where it listens, leaves a note for the other commands, and closes cleanly', async () => {
    const home = useHome(command);
    const serving = await home.serve();
    expect(serving.ready).toMatchObject({
      url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      home: home.path,
      counts: { running: 0, waiting: 0 },
      devices: expect.arrayContaining([expect.objectContaining({ id: 'host' })]),
    });
    const note = join(home.path, 'server.json');
    const token = readFileSync(join(home.path, 'token'), 'utf8').trim();
    expect(JSON.parse(readFileSync(note, 'utf8'))).toEqual({
      schema: 1,
      url: serving.url,
      pid: serving.pid,
      token,
    });
    for (const file of [note, join(home.path, 'token')]) {
      expect(statSync(file).mode & 0o777).toBe(0o600);
    }
    expect((await fetch(`${serving.url}/healthz`)).ok).toBe(true);
    serving.kill('SIGTERM');
    expect(await serving.ended).toBe(0);
    expect(serving.stderr()).toContain('plimsoll: closed. No job was running.');
    expect(existsSync(note)).toBe(false);
  });

  it('is alone in its home and on its port, and says so', async () => {
    const home = useHome(command);
    const serving = await home.serve();
    const second = await home.run(['serve', '--port', '0']);
    expect(second).toMatchObject({ exitCode: 2, stdout: '' });
    expect(second.stderr).toMatch(/^plimsoll: store-in-use: Another "plimsoll serve"/);
    expect(second.stderr).toContain(serving.url);
    const other = useHome(command);
    const { port } = new URL(serving.url);
    const taken = await other.run(['serve', '--port', port]);
    expect(taken).toMatchObject({ exitCode: 2, stdout: '' });
    expect(taken.stderr).toMatch(/^plimsoll: port-in-use: /);
    // The one that was there goes on.
    expect((await fetch(`${serving.url}/healthz`)).ok).toBe(true);
  });

  it('understands the variables of earlier tools, and simulated devices', async () => {
    const home = useHome(command);
    const serving = await home.serve(['--simulate', 'steady', '--line', '50'], {
      SAFETY_MARGIN_MB: '1000',
      GPU_DEVICE: '0',
    });
    const { devices } = JSON.parse(await (await serving.ask('/devices')).text());
    const gpu = devices.find(({ id }: { id: string }) => id === 'gpu:0');
    expect(gpu).toMatchObject({ provenance: 'simulated', takesJobs: true });
    expect(gpu.loadLineBytes).toBe(Math.floor(gpu.totalBytes / 2));
    const wrong = await home.run(['serve', '--port', '0'], {
      environment: { MAX_CONCURRENT_JOBS: 'many' },
    });
    expect(wrong).toMatchObject({ exitCode: 2 });
    expect(wrong.stderr).toContain('MAX_CONCURRENT_JOBS');
  });

  it.each([
    [['--port', '99999'], 'bad-option: --port cannot be "99999".'],
    [['--host', '0.0.0.0', '--no-token'], 'token-needed: '],
    [['--host', '192.0.2.77', '--no-token'], 'token-needed: '],
    [['--no-token', '--token-file', 'x'], 'bad-option: --no-token and --token-file'],
    [['--token-file', 'nowhere'], 'bad-token-file: '],
    [['--line', '0'], 'bad-option: --line cannot be "0".'],
    [['--placement', 'random'], 'bad-option: --placement cannot be "random".'],
    [['--allow-host', 'a b'], 'bad-option: --allow-host cannot be "a b".'],
    [['--simulate', 'nonsense'], 'nonsense'],
  ])('refuses %j', async (argv, message) => {
    const home = useHome(command);
    const { stderr, stdout, exitCode } = await home.run(['serve', '--port', '0', ...argv]);
    expect(stderr).toContain(message);
    expect({ stdout, exitCode }).toEqual({ stdout: '', exitCode: 2 });
  });

  it('asks for its token, which the commands of its home know', async () => {
    const home = useHome(command);
    const file = join(home.path, 'token');
    writeFileSync(file, 'a-token-of-the-test\n', { mode: 0o600 });
    const serving = await home.serve(['--token-file', file]);
    expect((await fetch(`${serving.url}/jobs`)).status).toBe(401);
    expect((await home.run(['jobs'])).exitCode).toBe(0);
    const wrong = await home.run(['jobs'], { environment: { PLIMSOLL_TOKEN: 'no' } });
    expect(wrong).toMatchObject({ exitCode: 2, stdout: '' });
    expect(wrong.stderr).toMatch(/^plimsoll: server-unproven: .*PLIMSOLL_TOKEN/);
    const stranger = useHome(command);
    const none = await stranger.run(['jobs', '--server', serving.url]);
    expect(none.stderr).toMatch(/^plimsoll: no-token: .*PLIMSOLL_TOKEN/);
  });
});

describe('estimates and plans over HTTP', () => {
  it('are what the commands answer', async () => {
    const home = useHome(command);
    const serving = await home.serve();
    const ask = async (path: string, body: object) => {
      const headers = { 'content-type': 'application/json' };
      const response = await serving.ask(path, {
        method: 'POST',
        headers,
        body: JSON.stringify(body),
      });
      return { status: response.status, document: JSON.parse(await response.text()) };
    };
    const workload = {
      model: config,
      batch: 8,
      seq: 512,
      gpu: 'h100',
      method: 'formula',
      keep: 'loss',
    };
    const options = '--batch 8 --seq 512 --gpu h100 --method formula --keep loss';
    const argv = [config, ...options.split(' ')];
    const estimated = await ask('/estimate', workload);
    expect(estimated).toEqual({ status: 200, document: await home.json(['estimate', ...argv]) });
    const planned = await ask('/plan', { ...workload, memoryBytes: 8 * 2 ** 30 });
    expect(planned.document).toEqual(await home.json(['plan', ...argv, '--memory', '8GiB']));
    const wrong = await ask('/estimate', { ...workload, precision: 'fp8' });
    expect(wrong.status).toBe(400);
    expect(JSON.stringify(wrong.document)).toContain('precision');
  });
});

describe('without a server', () => {
  it.each([
    ['dashboard'],
    ['jobs'],
    ['jobs', '1'],
    ['logs', '1'],
    ['cancel', '1'],
    ['submit', '--', 'true'],
  ])('plimsoll %s %s says how to start one', async (...argv) => {
    const home = useHome(command);
    // A port that was free a moment ago, and a note of a server that was killed.
    const url = await freeUrl();
    writeFileSync(join(home.path, 'server.json'), JSON.stringify({ url, pid: 2 ** 30 }));
    const { stdout, stderr, exitCode } = await home.run(argv);
    expect({ stdout, exitCode }).toEqual({ stdout: '', exitCode: 3 });
    expect(stderr).toMatch(/^plimsoll: server-unreachable: .*"plimsoll serve"/);
    expect(stderr).toContain(url);
  });
});

async function freeUrl(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
}
