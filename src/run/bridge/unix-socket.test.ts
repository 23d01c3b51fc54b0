import { chmodSync, existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../time/clock.js';
import { Coordinator } from './coordinator.js';
import { listenForSdk, removeSocket, socketPath } from './unix-socket.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-bridge-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

const events = { limitBytes: () => 1000, onRung: () => {}, onOutOfMemory: () => {} };

describe('the socket', () => {
  it('answers a process, and only ends the connection of one that talks nonsense', async () => {
    const server = await listenForSdk(socketPath(folder), new Coordinator(systemClock, events));
    expect(statSync(server.path).mode & 0o077).toBe(0);
    const bad = createConnection(server.path);
    const gone = new Promise((resolve) => bad.once('close', resolve));
    bad.on('error', () => {});
    bad.write('GET / HTTP/1.1\r\n\r\n');
    await gone;
    const good = createConnection(server.path);
    const lines = createInterface({ input: good });
    const answer = new Promise<string>((resolve) => lines.once('line', resolve));
    good.write('{"type":"hello","rank":0,"world":1,"hooks":["microbatch"]}\n');
    good.write('{"type":"oom","id":7,"microbatch":8,"batch":8}\n');
    expect(JSON.parse(await answer)).toMatchObject({
      type: 'decide',
      id: 7,
      action: 'retry',
      microbatch: 4,
    });
    const closed = new Promise((resolve) => good.once('close', resolve));
    await server.close();
    await closed;
  });

  it('takes the place of one that a killed supervisor left', async () => {
    const path = socketPath(folder);
    const first = await listenForSdk(path, new Coordinator(systemClock, events));
    const second = await listenForSdk(path, new Coordinator(systemClock, events));
    expect(existsSync(path)).toBe(true);
    await first.close();
    await second.close();
    expect(existsSync(path)).toBe(false);
  });

  it('lies outside of the run for another account, for which it can be entered and not listed', () => {
    const root = join(folder, 'open', 'jobs');
    const run = join(folder, '20260101-000000000-0000-job1');
    const before = process.umask(0o077);
    onTestFinished(() => void process.umask(before));
    const path = socketPath(run, { uid: 1, gid: 1 }, root);
    expect(path).toBe(join(root, '20260101-000000000-0000-job1', 'bridge.sock'));
    const modes = [dirname(root), root, dirname(path)].map((one) => statSync(one).mode & 0o777);
    expect(modes).toEqual([0o755, 0o755, 0o711]);
    // The same again for a plan that was lost, and gone by the name of the run alone.
    expect(socketPath(run, { uid: 1, gid: 1 }, root)).toBe(path);
    removeSocket(join(run, 'bridge.sock'), run, root);
    expect(existsSync(dirname(path))).toBe(false);
    chmodSync(dirname(root), 0o777);
    expect(socketPath(run, { uid: 1, gid: 1 }, root)).toBe(join(run, 'bridge.sock'));
    writeFileSync(join(folder, 'file'), '');
    const closed = socketPath(run, { uid: 1, gid: 1 }, join(folder, 'file', 'jobs'));
    expect(closed).toBe(join(run, 'bridge.sock'));
  });

  it('lies where its path is short enough, and leaves nothing there', () => {
    const long = join(folder, 'x'.repeat(120));
    const path = socketPath(long);
    expect(Buffer.byteLength(path)).toBeLessThanOrEqual(100);
    removeSocket(path, long);
    expect(existsSync(dirname(path))).toBe(false);
  });
});
