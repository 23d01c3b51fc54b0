import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import type { Duplex } from 'node:stream';
import { getRequestListener, RequestError } from '@hono/node-server';
import { Failure } from '../../failure.js';
import {
  type HostName,
  type HostPolicy,
  isAllowedHost,
  isOwnHost,
  readHost,
} from '../access/hosts.js';
import type { ServerApp } from '../app.js';
import { type ErrorAnswer, errorAnswer, internalError } from '../errors/error-body.js';
import {
  addressTooLong,
  badAddress,
  brokenRequest,
  headersTooLarge,
  shown,
  slowRequest,
} from '../errors/refusals.js';
import { Exchanges, securityHeaders, stopParsingWhenClosed, waitsForClient } from './exchanges.js';
import { serverLimits } from './limits.js';
import type { StrangerConnections } from './listen.js';

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
  const exchanges = new Exchanges();
  const answer = (
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    asksFirst: boolean,
  ): void => {
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
  const serve = (incoming: IncomingMessage, outgoing: ServerResponse, asksFirst = false): void =>
    exchanges.take(server, incoming, outgoing, () => answer(incoming, outgoing, asksFirst));
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

/** Answers a request that the parser could not read or did not wait for. It writes nothing into another answer. */
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

/**
 * Why it is doubtful where the body of a request ends. A proxy in front may see another end than we
 * do, and take the rest for a request of somebody else; the parser lets these two pass.
 */
function judgeFraming({
  httpVersion,
  headersDistinct,
}: Pick<IncomingMessage, 'httpVersion' | 'headersDistinct'>): Failure | undefined {
  const encodings = headersDistinct['transfer-encoding'];
  if (encodings === undefined) return undefined;
  if (httpVersion !== '1.1') return brokenRequest('its version knows no transfer encoding');
  if (encodings.join(', ').toLowerCase() === 'chunked') return undefined;
  return brokenRequest('its transfer encoding is not just "chunked"');
}

/** The parts of a request that decide whether it is accepted. */
export interface Arrival {
  readonly method: string;
  /** Path and query; or a whole address, as for a proxy. */
  readonly url: string;
  /** Every `Host` header; there must be one. */
  readonly hosts: readonly string[];
  readonly headers: BrowserHeaders;
}

/** Why a request is refused before anybody looks at what it asks for; undefined lets it in. */
export function judgeAccess(
  { method, url, hosts, headers }: Arrival,
  policy: HostPolicy,
): Failure | undefined {
  if (url.length > serverLimits.urlCharacters) return addressTooLong();
  const [text, ...more] = hosts;
  if (text === undefined || more.length > 0) return noHost();
  const host = readHost(text);
  if (host === undefined || !isOwnHost(host, policy)) return foreignHost(text);
  // Where the address names a host itself, that one counts, and a proxy may have gone by either.
  const named = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)/i.exec(url)?.[1];
  if (named !== undefined) {
    const target = readHost(named);
    if (target === undefined || !isOwnHost(target, policy)) return foreignHost(named);
  }
  const path = url.split('?', 1)[0] ?? '';
  if (isOwnOrigin(headers, { host, path, method }, policy.allowed)) return undefined;
  return foreignOrigin(headers.origin);
}

function noHost(): Failure {
  return new Failure({
    kind: 'input',
    code: 'no-host',
    fact: 'The request has no Host header, or more than one.',
    next: 'Send one Host header.',
  });
}

function foreignHost(text: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'foreign-host',
    fact: `The request is for the host "${shown(text)}", which is not a name of this server.`,
    next: 'Use localhost or the address it listens on, or start the server with that name: plimsoll serve --allow-host NAME',
  });
}

function foreignOrigin(origin: string | undefined): Failure {
  return new Failure({
    kind: 'input',
    code: 'foreign-origin',
    fact: `The request comes from ${origin === undefined ? 'a page of another site' : `"${shown(origin)}"`}.`,
    next: 'Use the page of this server, or a program that is not a browser.',
  });
}

interface BrowserHeaders {
  readonly origin?: string | undefined;
  readonly 'sec-fetch-site'?: string | undefined;
  readonly 'sec-fetch-mode'?: string | undefined;
  readonly 'sec-fetch-dest'?: string | undefined;
}

/**
 * Whether a request may come from where it comes from: our own page, or a program that is no
 * browser. `host` is what the request was sent to, and has been checked; TLS may end at a proxy, so
 * either scheme is ours.
 */
function isOwnOrigin(
  headers: BrowserHeaders,
  request: { readonly host: HostName; readonly path: string; readonly method: string },
  allowed: readonly string[],
): boolean {
  if (headers.origin !== undefined && !isOwn(headers.origin, request.host, allowed)) return false;
  const site = headers['sec-fetch-site'];
  if (site === undefined || site === 'same-origin' || site === 'none') return true;
  // A link to the page, in a chat or a wiki: the page itself holds nothing, and loads the rest as ours.
  return (
    request.method === 'GET' &&
    request.path === '/' &&
    headers['sec-fetch-mode'] === 'navigate' &&
    headers['sec-fetch-dest'] === 'document'
  );
}

const usualPorts: Readonly<Record<string, string>> = { http: '80', https: '443' };

function isOwn(origin: string, host: HostName, allowed: readonly string[]): boolean {
  const [, scheme = '', rest = ''] = /^(https?):\/\/(.+)$/.exec(origin) ?? [];
  const from = readHost(rest);
  if (from === undefined) return false;
  // Browsers leave the usual port out of an origin; a proxy may put it into the host.
  const isSamePort =
    from.port === host.port || (from.port === '' && host.port === usualPorts[scheme]);
  return (from.name === host.name && isSamePort) || isAllowedHost(from, allowed);
}
