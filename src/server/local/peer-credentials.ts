import type { Socket } from 'node:net';
import type koffiModule from 'koffi';

/** The process at the other end of a local socket, as the kernel knew it when it connected. */
export interface PeerCredentials {
  readonly uid: number;
  readonly gid: number;
}

/** Undefined where the kernel does not tell. */
export type ReadPeer = (socket: Socket) => PeerCredentials | undefined;

/** SOL_SOCKET and SO_PEERCRED of Linux, on every architecture that Node runs on here. */
const [socketLevel, peerCredentials] = [1, 17];
/** `struct ucred`: pid, uid, gid. */
const credentialBytes = 12;

/**
 * Reads who is at the other end of a local socket. It cannot be forged: the kernel keeps it.
 *
 * @example
 * const readPeer = await openPeerReader();
 * server.on('connection', (socket) => console.log(readPeer(socket)?.uid));
 */
export async function openPeerReader(
  platform: NodeJS.Platform = process.platform,
): Promise<ReadPeer> {
  if (platform !== 'linux' && platform !== 'darwin') {
    throw new Error(`${platform} does not tell who connects`);
  }
  const koffi = (await import('koffi')).default;
  return platform === 'linux' ? readerOfLinux(koffi) : readerOfDarwin(koffi);
}

function readerOfLinux(koffi: typeof koffiModule): ReadPeer {
  const getOption = koffi
    .load('libc.so.6')
    .func('getsockopt', 'int', ['int', 'int', 'int', 'void *', 'void *']);
  return (socket) => {
    const fd = descriptorOf(socket);
    const credentials = Buffer.alloc(credentialBytes);
    const length = Buffer.alloc(4);
    length.writeUInt32LE(credentialBytes);
    if (
      fd === undefined ||
      getOption(fd, socketLevel, peerCredentials, credentials, length) !== 0
    ) {
      return undefined;
    }
    if (length.readUInt32LE() !== credentialBytes) return undefined;
    return known(credentials.readUInt32LE(4), credentials.readUInt32LE(8));
  };
}

function readerOfDarwin(koffi: typeof koffiModule): ReadPeer {
  const getPeer = koffi
    .load('libSystem.B.dylib')
    .func('getpeereid', 'int', ['int', 'void *', 'void *']);
  return (socket) => {
    const fd = descriptorOf(socket);
    const [uid, gid] = [Buffer.alloc(4), Buffer.alloc(4)];
    if (fd === undefined || getPeer(fd, uid, gid) !== 0) return undefined;
    return known(uid.readUInt32LE(), gid.readUInt32LE());
  };
}

/** -1 is what the kernel writes where there is none. */
const noId = 0xff_ff_ff_ff;

function known(uid: number, gid: number): PeerCredentials | undefined {
  return uid === noId ? undefined : { uid, gid };
}

/** Node shows it on the handle of the connection alone. */
function descriptorOf(socket: Socket): number | undefined {
  const handle: unknown = Reflect.get(socket, '_handle');
  const fd: unknown =
    typeof handle === 'object' && handle !== null ? Reflect.get(handle, 'fd') : -1;
  return typeof fd === 'number' && fd >= 0 ? fd : undefined;
}

const peers = new WeakMap<Socket, PeerCredentials>();

export function rememberPeer(socket: Socket, peer: PeerCredentials): void {
  peers.set(socket, peer);
}

/** Returns the peer of a local socket's connection; undefined over the network. */
export function peerOf(socket: Socket): PeerCredentials | undefined {
  return peers.get(socket);
}

/** Returns the origin of a connection, for limits and the audit log: an address, or `uid 1000`. */
export function addressOf(socket: Socket): string {
  const peer = peers.get(socket);
  return peer === undefined ? (socket.remoteAddress ?? '') : `uid ${peer.uid}`;
}
