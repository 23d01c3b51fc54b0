import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Coordinator } from './coordinator.js';
import { createJsonLines } from './json-lines.js';
import type { Peer } from './party.js';
import { readMessage } from './read-message.js';

/** The kernel takes 107 bytes on Linux, 103 on macOS. */
const longestPath = 100;
/** Eight GPUs and some helpers each; a job with more speaks to us by fewer. */
const maxPeers = 1024;
/** What waits for a process that does not read; such a one is let go. */
const maxQueuedBytes = 1024 * 1024;

export interface BridgeServer {
  readonly path: string;
  close(): Promise<void>;
}

/** Where the socket of most runs lies. */
export function ownSocket(runFolder: string): string {
  return join(runFolder, 'bridge.sock');
}

/** Where the socket lies: in the run's folder, or in a private one where that path is too long. */
export function socketPath(runFolder: string): string {
  const path = ownSocket(runFolder);
  if (Buffer.byteLength(path) <= longestPath) return path;
  return join(mkdtempSync(join(tmpdir(), 'plimsoll-')), 'bridge.sock');
}

/** After the run: nothing of it stays, nor of a private folder that was made for it. */
export function removeSocket(path: string, runFolder: string): void {
  rmSync(path, { force: true });
  const folder = dirname(path);
  if (folder !== runFolder) rmSync(folder, { recursive: true, force: true });
}

/** Listens for the processes of a job. A wrong word ends a connection, never us. */
export async function listenForSdk(path: string, coordinator: Coordinator): Promise<BridgeServer> {
  rmSync(path, { force: true });
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    if (sockets.size >= maxPeers) {
      socket.destroy();
      return;
    }
    sockets.add(socket);
    const lines = createJsonLines();
    const peer: Peer = {
      send(message) {
        if (socket.destroyed) return;
        socket.write(`${JSON.stringify(message)}\n`);
        if (socket.writableLength > maxQueuedBytes) socket.destroy();
      },
    };
    socket.setEncoding('utf8');
    socket.on('data', (text) => {
      const documents = lines.take(String(text));
      if (documents === 'broken') {
        socket.destroy();
        return;
      }
      for (const document of documents) {
        const message = readMessage(document);
        if (message !== undefined) coordinator.take(peer, message);
      }
    });
    socket.on('error', () => {});
    socket.on('close', () => {
      sockets.delete(socket);
      coordinator.leave(peer);
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, resolve);
  });
  server.on('error', () => {});
  // Other people of this machine have nothing to tell us.
  chmodSync(path, 0o600);
  server.unref();
  return {
    path,
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy();
        server.close(() => {
          rmSync(path, { force: true });
          resolve();
        });
      }),
  };
}
