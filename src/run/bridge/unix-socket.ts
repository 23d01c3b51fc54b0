import { chmodSync, lchownSync, lstatSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { makeOpenFolder } from '../../files/folders.js';
import type { Account } from '../types.js';
import type { Coordinator } from './coordinator.js';
import type { Peer } from './party.js';
import { readMessage } from './read-message.js';

/** The kernel takes 107 bytes on Linux, 103 on macOS. */
const longestPath = 100;
/** Eight GPUs and some helpers each; a job with more speaks to us by fewer. */
const maxPeers = 1024;
/** Limit of bytes queued for a process that does not read; beyond it the connection is closed. */
const maxQueuedBytes = 1024 * 1024;

export interface BridgeServer {
  readonly path: string;
  close(): Promise<void>;
}

/** Returns the usual path of a run's socket. */
export function ownSocket(runFolder: string): string {
  return join(runFolder, 'bridge.sock');
}

/** Only root writes there, and it is empty after a reboot: no other account can be there first. */
const rootFolder = '/run/plimsoll/jobs';

/** The folder of a socket that another account shall reach, outside of the closed home of root. */
function openFolder(runFolder: string, root: string): string {
  return join(root, basename(runFolder));
}

/**
 * Returns the path of the socket: in the run's folder, or in a private one if that path is too
 * long. A program of another account cannot enter the home of root: its socket lies outside.
 */
export function socketPath(
  runFolder: string,
  account?: Account,
  root: string = rootFolder,
): string {
  if (account !== undefined) return openSocket(runFolder, root);
  const path = ownSocket(runFolder);
  if (Buffer.byteLength(path) <= longestPath) return path;
  return join(mkdtempSync(join(tmpdir(), 'plimsoll-')), 'bridge.sock');
}

/** Others may go through its folder, and see nothing of what lies there. */
function openSocket(runFolder: string, root: string): string {
  const folder = openFolder(runFolder, root);
  try {
    for (const above of [dirname(root), root]) makeOpenFolder(above, 0o755);
    makeOpenFolder(folder, 0o711);
    if ([dirname(root), root, folder].every(isOurs)) return join(folder, 'bridge.sock');
  } catch {
    // No such place can be made here.
  }
  // Without one the program decides by itself, as it does without a supervisor.
  return ownSocket(runFolder);
}

/** No other account could put something else in the place of what we make there. */
function isOurs(folder: string): boolean {
  const stats = lstatSync(folder);
  return stats.isDirectory() && stats.uid === process.getuid?.() && (stats.mode & 0o022) === 0;
}

/** After the run: nothing of it stays, nor of a folder that was made for it. */
export function removeSocket(path: string, runFolder: string, root: string = rootFolder): void {
  rmSync(path, { force: true });
  const folder = dirname(path);
  if (folder !== runFolder) rmSync(folder, { recursive: true, force: true });
  try {
    // Also where the plan that named it was lost.
    rmSync(openFolder(runFolder, root), { recursive: true, force: true });
  } catch {
    // Closed to us: then no run of ours has anything there.
  }
}

/** Listens for the processes of a job. A wrong word ends a connection, never us. */
export async function listenForSdk(
  path: string,
  coordinator: Coordinator,
  /** Of the program, where it is another than ours. */
  account?: Account,
): Promise<BridgeServer> {
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
  if (account !== undefined) lchownSync(path, account.uid, account.gid);
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

/** A snapshot's path and a long message fit many times; more is no message of ours. */
const longestLineBytes = 256 * 1024;

/**
 * Cuts a stream of bytes into lines of JSON, in pieces of any size.
 *
 * @example
 * const lines = createJsonLines();
 * lines.take('{"type":"by'); // []
 * lines.take('e"}\n'); // [{ type: 'bye' }]
 */
interface JsonLines {
  /** The documents that are whole now; `broken` when the sender does not keep to the rules. */
  take(text: string): readonly unknown[] | 'broken';
}

export function createJsonLines(): JsonLines {
  let rest = '';
  return {
    take(text) {
      const pieces = (rest + text).split('\n');
      rest = pieces.pop() ?? '';
      if (rest.length > longestLineBytes) return 'broken';
      const found: unknown[] = [];
      for (const piece of pieces) {
        if (piece.trim() === '') continue;
        try {
          found.push(JSON.parse(piece));
        } catch {
          return 'broken';
        }
      }
      return found;
    },
  };
}
