import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { needsLinux } from '../../../test/support/needs.js';
import { openPeerReader } from './peer-credentials.js';

/** Returns the server's view of a connection, while it is open. */
async function seen(
  place: string | { readonly host: string; readonly port: number },
  look: (socket: Socket) => unknown,
): Promise<unknown> {
  const server = createServer();
  onTestFinished(() => void server.close());
  const accepted = new Promise<Socket>((resolve) => server.once('connection', resolve));
  await new Promise<void>((resolve) => server.listen(place, resolve));
  const address = server.address();
  const client =
    typeof address === 'object' && address !== null
      ? connect(address.port, address.address)
      : connect(String(address));
  const socket = await accepted;
  const found = look(socket);
  client.destroy();
  socket.destroy();
  return found;
}

describe('openPeerReader', needsLinux, () => {
  it('tells the account of a process that connects to a local socket', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'plimsoll-peer-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const readPeer = await openPeerReader();
    expect(await seen(join(folder, 'a.sock'), readPeer)).toEqual({
      uid: process.getuid?.(),
      gid: process.getgid?.(),
    });
  });

  it('knows no account of a connection over the network, nor of one that is closed', async () => {
    const readPeer = await openPeerReader();
    expect(await seen({ host: '127.0.0.1', port: 0 }, readPeer)).toBeUndefined();
    const closed = await seen({ host: '127.0.0.1', port: 0 }, (socket) => {
      socket.destroy();
      return readPeer(socket);
    });
    expect(closed).toBeUndefined();
  });
});

it('says where the system does not tell it', async () => {
  await expect(openPeerReader('win32')).rejects.toThrow('win32 does not tell who connects');
});
