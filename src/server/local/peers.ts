import type { Socket } from 'node:net';
import type { PeerCredentials } from './peer-credentials.js';

const peers = new WeakMap<Socket, PeerCredentials>();

export function rememberPeer(socket: Socket, peer: PeerCredentials): void {
  peers.set(socket, peer);
}

/** Who is at the other end of a connection of the local socket; undefined over the network. */
export function peerOf(socket: Socket): PeerCredentials | undefined {
  return peers.get(socket);
}

/** Where a connection comes from, for limits and the audit log: an address, or `uid 1000`. */
export function addressOf(socket: Socket): string {
  const peer = peers.get(socket);
  return peer === undefined ? (socket.remoteAddress ?? '') : `uid ${peer.uid}`;
}
