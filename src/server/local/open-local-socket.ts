import { lstatSync, rmSync } from 'node:fs';
import type { Server } from 'node:http';
import { connect, type Socket } from 'node:net';
import { dirname } from 'node:path';
import { Failure } from '../../failure.js';
import { makeFolder, makeOpenFolder } from '../../files/folders.js';
import { serverLimits } from '../http/limits.js';
import { type ReadPeer, rememberPeer } from './peer-credentials.js';

/** The kernel takes 107 bytes on Linux, 103 on macOS. */
const longestPath = 103;

export interface LocalSocketOptions {
  readonly path: string;
  /** Whether accounts other than that of the server may connect. */
  readonly forAll: boolean;
  readonly readPeer: ReadPeer;
  readonly serverUid: number | undefined;
}

/** Has a server listen on a local socket, where the kernel tells who connects. */
export async function openLocalSocket(server: Server, options: LocalSocketOptions): Promise<void> {
  const { path, forAll } = options;
  if (Buffer.byteLength(path) > longestPath) {
    throw badSocket(path, `a path of a socket has at most ${longestPath} bytes`);
  }
  await makeRoom(path, forAll);
  server.prependListener('connection', admission(options));
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(badSocket(path, error.message, error)));
    // Made with its mode: changing that afterwards could be led to another file by a link.
    const before = process.umask(forAll ? 0o111 : 0o177);
    try {
      server.listen({ path, backlog: serverLimits.waitingConnections }, resolve);
    } finally {
      process.umask(before);
    }
  });
}

/** Tells who connects; one account cannot take all connections from the others. */
function admission({ readPeer, serverUid }: LocalSocketOptions): (socket: Socket) => void {
  const open = new Map<number, number>();
  return (socket) => {
    const peer = readPeer(socket);
    const count = open.get(peer?.uid ?? -1) ?? 0;
    const isOwner = peer?.uid === serverUid || peer?.uid === 0;
    if (peer === undefined || (!isOwner && count >= serverLimits.localConnections)) {
      socket.destroy();
      return;
    }
    rememberPeer(socket, peer);
    open.set(peer.uid, count + 1);
    socket.once('close', () => {
      const left = (open.get(peer.uid) ?? 1) - 1;
      if (left === 0) open.delete(peer.uid);
      else open.set(peer.uid, left);
    });
  };
}

/** A server that was killed leaves its socket; one that lives keeps it. */
async function makeRoom(path: string, forAll: boolean): Promise<void> {
  try {
    // Who may connect is a matter of the socket.
    if (forAll) makeOpenFolder(dirname(path), 0o755);
    else makeFolder(dirname(path), 0o700);
  } catch (error) {
    throw badSocket(path, error instanceof Error ? error.message : String(error), error);
  }
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return;
  if (!stats.isSocket()) throw badSocket(path, 'another file has its name');
  if (await answers(path)) throw inUse(path);
  rmSync(path, { force: true });
}

function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    // Only one that is refused listens no more; what cannot be told is left alone.
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code !== 'ECONNREFUSED'));
  });
}

function badSocket(path: string, why: string, cause?: unknown): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-socket',
    fact: `The server cannot listen at ${path}: ${why}.`,
    next: 'Name another path with --socket, in a folder that only you can write to.',
    cause,
  });
}

function inUse(path: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'socket-in-use',
    fact: `Another server listens at ${path}.`,
    next: 'Stop it, or name another path with --socket.',
  });
}
