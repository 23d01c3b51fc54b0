import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { checkSocket, findServer, placeOf } from './find-server.js';

let folder = '';
let socket = '';
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-find-'));
  socket = join(folder, 'server.sock');
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  onTestFinished(() => {
    server.close();
    rmSync(folder, { recursive: true, force: true });
  });
});
const home = () => ({ PLIMSOLL_HOME: folder });

describe('the server that a command speaks to', () => {
  it('is the one at the socket that was named', () => {
    expect(findServer({ socket }, home())).toEqual({
      url: 'http://localhost',
      socket,
      token: undefined,
    });
    const byVariable = findServer({}, { ...home(), PLIMSOLL_SOCKET: socket, PLIMSOLL_TOKEN: 'x' });
    expect([placeOf(byVariable), byVariable.token]).toEqual([socket, 'x']);
    const named = findServer({ server: 'http://a:1' }, { ...home(), PLIMSOLL_SOCKET: socket });
    expect(placeOf(named)).toBe('http://a:1');
    const bySocket = findServer({ socket }, { ...home(), PLIMSOLL_SERVER: 'http://a:1' });
    expect(placeOf(bySocket)).toBe(socket);
  });

  it('is named once', () => {
    expect(() => findServer({ socket, server: 'http://a:1' }, home())).toThrow(
      '--server and --socket name two servers.',
    );
    const both = { ...home(), PLIMSOLL_SOCKET: socket, PLIMSOLL_SERVER: 'http://a:1' };
    expect(() => findServer({}, both)).toThrow(
      'PLIMSOLL_SERVER and PLIMSOLL_SOCKET name two servers.',
    );
  });

  it('is that of the home, before the one for all accounts, before the usual address', () => {
    expect(placeOf(findServer({}, home(), socket))).toBe(socket);
    expect(placeOf(findServer({}, home(), join(folder, 'none.sock')))).toBe(
      'http://127.0.0.1:8000',
    );
    const note = { schema: 1, url: 'http://127.0.0.1:8123', pid: process.pid };
    writeFileSync(join(folder, 'server.json'), JSON.stringify(note));
    expect(placeOf(findServer({}, home(), socket))).toBe('http://127.0.0.1:8123');
  });

  it('is not at a socket that another account could have put there', () => {
    const uid = (process.getuid?.() ?? 0) + 1;
    // Ours, for another account that reads our folder.
    expect(() => checkSocket(socket, uid)).not.toThrow();
    chmodSync(folder, 0o777);
    expect(() => findServer({ socket }, home())).toThrow('could have put the socket');
    expect(placeOf(findServer({}, home(), socket))).toBe('http://127.0.0.1:8000');
    // As /tmp is: ours cannot be replaced there.
    chmodSync(folder, 0o1777);
    expect(() => findServer({ socket }, home())).not.toThrow();
    if (uid !== 1) expect(() => checkSocket(socket, uid)).toThrow('could have put the socket');
  });
});
