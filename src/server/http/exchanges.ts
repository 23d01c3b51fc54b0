import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Server, Socket } from 'node:net';
import { serverLimits } from './limits.js';

/** A request and its answer, as far as it tells who waits for whom. */
interface Exchange {
  readonly incoming: Pick<IncomingMessage, 'complete'>;
  readonly outgoing: Pick<ServerResponse, 'writableLength' | 'writableEnded' | 'headersSent'>;
}

/**
 * Whether a silent connection waits for its client: to ask, to send the rest of a request, or to take
 * what it was answered. Where it does not, the answer is still being made, which may take minutes, or
 * it is an event stream on which nothing happens: such silence is ours.
 */
export function waitsForClient(oldest: Exchange | undefined): boolean {
  if (oldest === undefined) return true;
  const { incoming, outgoing } = oldest;
  return !incoming.complete || outgoing.writableLength > 0 || outgoing.writableEnded;
}

interface BegunExchange extends Exchange {
  readonly begin: () => void;
}

/** A server that listens for HTTP, with or without TLS. */
interface ListeningServer extends Pick<Server, 'listening'> {
  closeIdleConnections(): void;
}

/**
 * The open requests of each connection, in their order: answers keep to it. Each connection is
 * answered one request at a time, so that a pipelining client is not served before others; one that
 * sends too many ahead is closed.
 */
export class Exchanges {
  readonly #bySocket = new WeakMap<object, Set<BegunExchange>>();

  /** Calls `begin` when it is the turn of this request, and not at all where its client left before. */
  take(
    server: ListeningServer,
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    begin: () => void,
  ): void {
    const { socket } = incoming;
    // Where the parser did not stop.
    if (socket.destroyed) return;
    const known = this.#bySocket.get(socket) ?? new Set();
    this.#bySocket.set(socket, known);
    if (known.size >= serverLimits.pipelinedRequests) {
      socket.destroy();
      return;
    }
    const exchange = { incoming, outgoing, begin };
    known.add(exchange);
    whenAnswered(incoming, outgoing, () => {
      known.delete(exchange);
      // While the server closes, this connection takes no further request.
      if (!server.listening) setImmediate(() => server.closeIdleConnections());
      // After what others asked meanwhile.
      const next = this.oldest(socket);
      if (next !== undefined) setImmediate(() => beginUnlessGone(socket, next));
    });
    if (this.oldest(socket) === exchange) begin();
  }

  oldest(socket: object): BegunExchange | undefined {
    const [first] = this.#bySocket.get(socket) ?? [];
    return first;
  }

  /** The head of an answer is out: nothing else may be written between. */
  isAnswering(socket: object): boolean {
    return this.oldest(socket)?.outgoing.headersSent ?? false;
  }
}

function beginUnlessGone(socket: Socket, { begin }: BegunExchange): void {
  if (!socket.destroyed) begin();
}

/** Return value that stops the HTTP parser, as at a change of protocol. */
const stop = 2;

/**
 * Has the parser of a connection stop once the connection is closed. It otherwise goes through all
 * that it has read: 64 KiB of pipelined requests take 30 ms of the one thread that answers everybody.
 * Node has no word for this, so it is asked of the parser itself; where that is not as expected, the
 * connection stays as it is.
 */
export function stopParsingWhenClosed(socket: Socket): void {
  const parser: unknown = Reflect.get(socket, 'parser');
  if (typeof parser !== 'object' || parser === null) return;
  const onIncoming: unknown = Reflect.get(parser, 'onIncoming');
  if (typeof onIncoming !== 'function') return;
  Reflect.set(parser, 'onIncoming', (...request: readonly unknown[]): unknown =>
    socket.destroyed ? stop : Reflect.apply(onIncoming, parser, request),
  );
}

const waiting = new WeakMap<Socket, Set<() => void>>();

/**
 * Calls `done` once the answer is sent whole, cut off, or its connection is closed. An answer that is
 * queued behind another one on its connection (pipelining) emits no `close` of its own when the
 * connection ends, so the connection is followed, too.
 */
export function whenAnswered(
  { socket }: Pick<IncomingMessage, 'socket'>,
  outgoing: Pick<ServerResponse, 'once' | 'off'>,
  done: () => void,
): void {
  const ofConnection = waiting.get(socket) ?? follow(socket);
  const finish = (): void => {
    if (!ofConnection.delete(finish)) return;
    outgoing.off('close', finish);
    done();
  };
  ofConnection.add(finish);
  if (socket.destroyed) finish();
  else outgoing.once('close', finish);
}

function follow(socket: Socket): Set<() => void> {
  const ofConnection = new Set<() => void>();
  waiting.set(socket, ofConnection);
  socket.once('close', () => {
    for (const finish of ofConnection) finish();
  });
  return ofConnection;
}

/**
 * On pages that are made of what a job left: they carry their own style and script, and may hold words
 * of the program. A sandbox keeps them apart from the dashboard: they have no cookie and can ask the
 * server for nothing.
 */
export const pageOfJobHeaders: Readonly<Record<string, string>> = {
  'content-security-policy':
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
};

/** On every answer. The page loads nothing from elsewhere, and no other site may put it into a frame. */
export const securityHeaders: Readonly<Record<string, string>> = {
  'content-security-policy':
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
};
