import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
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

  it('lies where its path is short enough, and leaves nothing there', () => {
    const long = join(folder, 'x'.repeat(120));
    const path = socketPath(long);
    expect(Buffer.byteLength(path)).toBeLessThanOrEqual(100);
    removeSocket(path, long);
    expect(existsSync(dirname(path))).toBe(false);
  });
});
