import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer, request, type Server } from 'node:http';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { serverLimits } from '../http/limits.js';
import { type LocalSocketOptions, openLocalSocket } from './open-local-socket.js';
import { addressOf } from './peer-credentials.js';

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'plimsoll-socket-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

async function open(path: string, options: Partial<LocalSocketOptions> = {}): Promise<Server> {
  const server = createServer((incoming, outgoing) => outgoing.end(addressOf(incoming.socket)));
  onTestFinished(() => void server.close());
  const readPeer = () => ({ uid: 7, gid: 7 });
  await openLocalSocket(server, { path, forAll: false, readPeer, serverUid: 0, ...options });
  return server;
}

function ask(path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    request({ socketPath: path, agent: false }, (answer) => {
      answer.setEncoding('utf8').on('data', resolve);
    })
      .once('error', reject)
      .end();
  });
}

const modeOf = (path: string): number => statSync(path).mode & 0o777;

describe('the local socket of a server', () => {
  it('is for its owner alone, unless others are allowed, whatever the umask is', async () => {
    const place = folder();
    for (const mask of [0o000, 0o077]) {
      const before = process.umask(mask);
      onTestFinished(() => void process.umask(before));
      const own = join(place, `own-${mask}.sock`);
      const all = join(place, `made-${mask}`, 'all.sock');
      await open(own);
      await open(all, { forAll: true });
      expect([modeOf(own), modeOf(all), modeOf(join(place, `made-${mask}`))]).toEqual([
        0o600, 0o666, 0o755,
      ]);
    }
  });

  it('knows who asks, and is gone when the server has closed', async () => {
    const path = join(folder(), 'server.sock');
    const server = await open(path);
    expect(await ask(path)).toBe('uid 7');
    await new Promise((resolve) => server.close(resolve));
    expect(existsSync(path)).toBe(false);
  });

  it('takes the place of one that a killed server left', async () => {
    const path = join(folder(), 'server.sock');
    const script = `require('net').createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, 'SIGKILL'))`;
    expect(spawnSync(process.execPath, ['-e', script]).signal).toBe('SIGKILL');
    expect(statSync(path).isSocket()).toBe(true);
    await open(path);
    expect(await ask(path)).toBe('uid 7');
  });

  it('leaves alone what is not its own', async () => {
    const place = folder();
    const path = join(place, 'server.sock');
    await open(path);
    await expect(open(path)).rejects.toMatchObject({ code: 'socket-in-use' });
    expect(await ask(path)).toBe('uid 7');
    const file = join(place, 'file');
    writeFileSync(file, 'mine');
    await expect(open(file)).rejects.toMatchObject({ code: 'bad-socket' });
    mkdirSync(join(place, 'sub'));
    await expect(open(join(place, 'sub'))).rejects.toMatchObject({ code: 'bad-socket' });
    await expect(open(join(file, 'a.sock'))).rejects.toMatchObject({ code: 'bad-socket' });
    await expect(open(join(place, 'x'.repeat(200)))).rejects.toMatchObject({ code: 'bad-socket' });
  });

  it('takes no connection of which the kernel does not tell the account', async () => {
    const path = join(folder(), 'server.sock');
    await open(path, { readPeer: () => undefined });
    await expect(ask(path)).rejects.toThrow(/hang up|ECONNRESET|EPIPE/);
  });

  it('has room for the owner while another account holds all that it can get', async () => {
    const path = join(folder(), 'server.sock');
    let uid = 1000;
    await open(path, { readPeer: () => ({ uid, gid: uid }) });
    const { localConnections } = serverLimits;
    const sockets = await Promise.all(
      Array.from({ length: localConnections }, () => connected(path)),
    );
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy();
    });
    await expect(ask(path)).rejects.toThrow(/hang up|ECONNRESET|EPIPE/);
    uid = 1001;
    expect(await ask(path)).toBe('uid 1001');
    uid = 1000;
    const [first] = sockets;
    first?.destroy();
    await expect.poll(() => ask(path).catch(() => '')).toBe('uid 1000');
  });
});

function connected(path: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(path, () => resolve(socket)).once('error', reject);
  });
}
