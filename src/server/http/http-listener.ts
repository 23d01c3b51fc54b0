import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import type { Duplex } from 'node:stream';
import { getRequestListener, RequestError } from '@hono/node-server';
import type { Failure } from '../../failure.js';
import type { HostPolicy } from '../access/hosts.js';
import { type Arrival, judgeAccess } from '../access/judge-access.js';
import type { ServerApp } from '../app.js';
import { type ErrorAnswer, errorAnswer, internalError } from '../errors/error-body.js';
import { badAddress, brokenRequest, headersTooLarge, slowRequest } from '../errors/refusals.js';
import { judgeFraming } from './judge-framing.js';
import { serverLimits } from './limits.js';
import { securityHeaders } from './security-headers.js';
import { type Exchange, Exchanges, waitsForClient } from './silent-clients.js';
import { stopParsingWhenClosed } from './stop-parsing.js';
import type { StrangerConnections } from './stranger-connections.js';
import { whenAnswered } from './when-answered.js';

export interface ListenerOptions {
  readonly app: ServerApp;
  readonly policy: HostPolicy;
  readonly strangers: StrangerConnections;
  /** A fault of ours that no route caught. */
  readonly fault: (error: unknown) => void;
  /** Of requests that never reach a route. */
  readonly refused: (request: { method: string; path: string; status: number }) => void;
}

/** A server of node:http over the routes, with its limits set; it does not listen yet. */
export function createHttpServer(options: ListenerOptions): Server {
  const { app, policy, strangers, refused, fault } = options;
  const listener = getRequestListener(app.fetch, {
    // Stands in where there is no Host header; those are refused with a reason below.
    hostname: 'localhost',
    overrideGlobalObjects: false,
    errorHandler(error) {
      if (error instanceof RequestError) return responseOf(errorAnswer(badAddress()));
      fault(error);
      return responseOf(internalError);
    },
  });
  const exchanges = new Exchanges<Exchange & { readonly begin: () => void }>();
  const serve = (incoming: IncomingMessage, outgoing: ServerResponse, asksFirst = false): void => {
    const { socket } = incoming;
    // Where the parser did not stop.
    if (socket.destroyed) return;
    if (exchanges.count(socket) >= serverLimits.pipelinedRequests) {
      socket.destroy();
      return;
    }
    const exchange = { incoming, outgoing, begin: () => answer(incoming, outgoing, asksFirst) };
    exchanges.add(socket, exchange);
    whenAnswered(incoming, outgoing, () => {
      exchanges.remove(socket, exchange);
      // While the server closes, this connection takes no further request.
      if (!server.listening) setImmediate(() => server.closeIdleConnections());
      const next = exchanges.oldest(socket);
      // After what others asked meanwhile.
      if (next !== undefined) setImmediate(() => next.begin());
    });
    // One at a time of each connection: one that asks ahead must not be served before others.
    if (exchanges.oldest(socket) === exchange) exchange.begin();
  };
  const answer = (
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    asksFirst: boolean,
  ): void => {
    if (incoming.socket.destroyed) return;
    const refusal = judgeFraming(incoming) ?? judgeAccess(arrivalOf(incoming), policy);
    if (refusal === undefined) {
      // A client that asks first is not told to go on with what will be refused.
      if (asksFirst && claimedBytes(incoming) <= serverLimits.bodyBytes) outgoing.writeContinue();
      void listener(incoming, outgoing);
      return;
    }
    const { method = '', url = '' } = incoming;
    refused({ method, path: url, status: refuse(outgoing, refusal) });
  };
  const server = createServer(
    {
      maxHeaderSize: serverLimits.headerBytes,
      headersTimeout: serverLimits.headersSeconds * 1000,
      requestTimeout: serverLimits.requestSeconds * 1000,
      keepAliveTimeout: serverLimits.keepAliveSeconds * 1000,
      connectionsCheckingInterval: 2000,
      requireHostHeader: false,
      noDelay: true,
      // A client whose machine vanished is found out.
      keepAlive: true,
      keepAliveInitialDelay: 30_000,
    },
    (incoming, outgoing) => serve(incoming, outgoing),
  );
  server.maxConnections = serverLimits.connections;
  server.on('connection', (socket) => {
    stopParsingWhenClosed(socket);
    strangers.add(socket);
  });
  // Their bytes are limited: a count would drop some unseen, and one of them might matter.
  server.maxHeadersCount = 0;
  server.timeout = serverLimits.silentSeconds * 1000;
  // The one place that lets silent clients go; no route touches the time of a connection.
  server.on('timeout', (socket) => {
    if (waitsForClient(exchanges.oldest(socket))) socket.destroy();
  });
  server.on('checkContinue', (incoming: IncomingMessage, outgoing: ServerResponse) =>
    serve(incoming, outgoing, true),
  );
  server.on('clientError', (error: Error & { code?: string }, socket: Duplex) => {
    answerBrokenRequest(error, socket, exchanges.isAnswering(socket));
  });
  return server;
}

function claimedBytes({ headers }: IncomingMessage): number {
  return Number(headers['content-length'] ?? 0);
}

function arrivalOf({ method = '', url = '', headers, headersDistinct }: IncomingMessage): Arrival {
  const one = (name: string): string | undefined => headersDistinct[name]?.join(', ');
  return {
    method,
    url,
    hosts: headersDistinct['host'] ?? [],
    headers: {
      origin: headers.origin,
      'sec-fetch-site': one('sec-fetch-site'),
      'sec-fetch-mode': one('sec-fetch-mode'),
      'sec-fetch-dest': one('sec-fetch-dest'),
    },
  };
}

function headersOf({ headers }: ErrorAnswer, body: string): Record<string, string> {
  return {
    ...securityHeaders,
    ...headers,
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
    'cache-control': 'no-store',
  };
}

function responseOf(answer: ErrorAnswer): Response {
  const body = JSON.stringify(answer.body);
  return new Response(body, { status: answer.status, headers: headersOf(answer, body) });
}

/** A refused client may still be sending; the connection does not wait for that. */
function refuse(outgoing: ServerResponse, failure: Failure): number {
  const answer = errorAnswer(failure);
  const body = JSON.stringify(answer.body);
  outgoing.writeHead(answer.status, { ...headersOf(answer, body), connection: 'close' });
  outgoing.end(body);
  return answer.status;
}

/** What the parser of HTTP cannot read, or did not wait for. Into another answer nothing is written. */
function answerBrokenRequest(
  error: Error & { code?: string },
  socket: Duplex,
  isAnswering: boolean,
): void {
  if (error.code === 'ECONNRESET' || !socket.writable || isAnswering) {
    socket.destroy();
    return;
  }
  const answer = errorAnswer(failureOf(error.code ?? ''));
  const body = JSON.stringify(answer.body);
  const lines = Object.entries({
    ...headersOf(answer, body),
    connection: 'close',
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(
    `HTTP/1.1 ${answer.status} ${STATUS_CODES[answer.status]}\r\n${lines.join('')}\r\n${body}`,
  );
  socket.once('finish', () => socket.destroy());
}

function failureOf(code: string): Failure {
  if (code === 'HPE_HEADER_OVERFLOW') return headersTooLarge();
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return slowRequest();
  return brokenRequest(
    /^HPE_\w+$/.test(code) ? code.slice(4).toLowerCase().replaceAll('_', ' ') : 'it cannot be read',
  );
}
