import type { Server as NetServer, Server, Socket } from 'node:net';
import { Failure } from '../../failure.js';
import type { Clock } from '../../time/clock.js';
import { bracketed, isLoopback, isWildcard } from '../access/hosts.js';
import { addressOf } from '../local/peer-credentials.js';
import { serverLimits } from './limits.js';

/** The address on which a server really listens. */
interface Place {
  readonly port: number;
  readonly url: string;
}

/** Listens, or says why it cannot. */
export async function listen(
  server: Server,
  host: string,
  port: number,
  scheme: 'http' | 'https' = 'http',
): Promise<Place> {
  if (!Number.isInteger(port) || port < 0 || port > 65_535) throw badPort(port);
  const name = host.replace(/^\[(.*)\]$/, '$1');
  await new Promise<void>((resolve, reject) => {
    const fail = (error: Error): void => reject(listenFailure(error, host, port));
    server.once('error', fail);
    server.listen({ host: name, port, backlog: serverLimits.waitingConnections }, () => {
      server.off('error', fail);
      resolve();
    });
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no address of TCP');
  // A name is judged by what it looks like before, and by what it turned out to be here.
  if (isLoopback(host) && !isLoopback(address.address)) {
    server.close();
    throw badHost(host);
  }
  const shownHost = isWildcard(host) ? 'localhost' : bracketed(name);
  return { port: address.port, url: `${scheme}://${shownHost}:${address.port}` };
}

function listenFailure(error: Error & { code?: string }, host: string, port: number): Failure {
  if (error.code === 'EADDRINUSE') {
    return new Failure({
      kind: 'input',
      code: 'port-in-use',
      fact: `Another program listens on port ${port} of ${host}.`,
      next: 'If it is plimsoll, use that server; otherwise stop the program, or choose another port with --port.',
      cause: error,
    });
  }
  if (error.code === 'EACCES' || error.code === 'EPERM') {
    return new Failure({
      kind: 'input',
      code: 'port-not-allowed',
      fact: `You have no permission to listen on port ${port}.`,
      next: 'Choose a port above 1023 with --port; for a lower port, put a proxy in front.',
      cause: error,
    });
  }
  return badHost(host, error);
}

function badHost(host: string, cause?: Error): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-host',
    fact: `"${host.slice(0, 100)}" is not an address of this machine.`,
    next: 'Use 127.0.0.1 for this machine only, or 0.0.0.0 for all its addresses.',
    cause,
  });
}

function badPort(port: number): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-port',
    fact: `The port is ${port}.`,
    next: 'Use a whole number from 0 (any free port) to 65535.',
  });
}

/** A server of HTTP, with or without TLS. */
interface ClosingServer extends NetServer {
  closeIdleConnections(): void;
  closeAllConnections(): void;
}

/** Takes no new connections, lets open requests end, and cuts off those that take too long. */
export async function closeServers(
  servers: readonly ClosingServer[],
  stopAll: () => void,
  clock: Clock,
): Promise<void> {
  const done = new AbortController();
  const each = servers.map(
    (server) => new Promise<void>((resolve) => void server.close(() => resolve())),
  );
  const closed = Promise.all(each).then(() => done.abort());
  stopAll();
  for (const server of servers) server.closeIdleConnections();
  await clock.waitUntil(clock.seconds() + serverLimits.closeSeconds, done.signal);
  for (const server of servers) server.closeAllConnections();
  await closed;
}

/**
 * Connections on which no request has shown a token yet. When there are too many, the oldest of the
 * address with the most of them is closed: strangers make room for each other, never for themselves
 * at the cost of those who are known.
 */
export class StrangerConnections {
  readonly #most: number;
  readonly #byAddress = new Map<string, Set<Socket>>();
  readonly #followed = new WeakSet<Socket>();
  #count = 0;

  constructor(most: number) {
    this.#most = most;
  }

  get count(): number {
    return this.#count;
  }

  has(socket: Socket): boolean {
    return this.#byAddress.get(addressOf(socket))?.has(socket) ?? false;
  }

  /** Also one that was known for a while; it counts as the newest. */
  add(socket: Socket): void {
    if (socket.destroyed || this.has(socket)) return;
    const address = addressOf(socket);
    const ofAddress = this.#byAddress.get(address) ?? new Set<Socket>();
    this.#byAddress.set(address, ofAddress.add(socket));
    this.#count += 1;
    if (!this.#followed.has(socket)) socket.once('close', () => this.#forget(address, socket));
    this.#followed.add(socket);
    if (this.#count > this.#most) this.#closeOne();
  }

  /** A request on it came with a token, a session, or the server asks for neither. */
  isKnown(socket: Socket): void {
    this.#forget(addressOf(socket), socket);
  }

  #forget(address: string, socket: Socket): void {
    const ofAddress = this.#byAddress.get(address);
    if (ofAddress === undefined || !ofAddress.delete(socket)) return;
    this.#count -= 1;
    if (ofAddress.size === 0) this.#byAddress.delete(address);
  }

  #closeOne(): void {
    let address = '';
    let sockets = new Set<Socket>();
    // In one pass: it is done for each connection beyond the limit.
    for (const [one, ofOne] of this.#byAddress) {
      if (ofOne.size > sockets.size) [address, sockets] = [one, ofOne];
    }
    const [oldest] = sockets;
    if (oldest === undefined) return;
    this.#forget(address, oldest);
    oldest.destroy();
  }
}
