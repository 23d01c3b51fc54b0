import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { isLoopback, isOwnHost, readHost } from '../access/hosts.js';
import { serverLimits } from '../http/limits.js';
import { securityHeaders } from '../http/security-headers.js';

/** Prometheus keeps one open; a flood must not fill the memory. */
const connections = 64;

export interface ExporterListenerOptions {
  readonly host: string;
  /** Whether it may read, by its `Authorization` header. */
  readonly isAllowed: (authorization: string | undefined) => boolean;
  /** The page, made when somebody asks. */
  readonly text: () => string;
  /** A fault of ours. */
  readonly fault: (error: unknown) => void;
}

interface Answer {
  readonly status: number;
  readonly type: string;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A server of one page; it does not listen yet. */
export function createExporterServer(options: ExporterListenerOptions): Server {
  const server = createServer(
    {
      maxHeaderSize: serverLimits.headerBytes,
      headersTimeout: serverLimits.headersSeconds * 1000,
      requestTimeout: serverLimits.requestSeconds * 1000,
      keepAliveTimeout: serverLimits.keepAliveSeconds * 1000,
    },
    (request, response) => send(request, response, answerTo(request, options)),
  );
  server.maxConnections = connections;
  server.timeout = serverLimits.silentSeconds * 1000;
  return server;
}

function answerTo(request: IncomingMessage, options: ExporterListenerOptions): Answer {
  const { method, url = '', headers } = request;
  const { host } = options;
  const named = readHost(headers.host ?? '');
  // A page in a browser could point its own name at this machine; beyond loopback all may ask.
  if (isLoopback(host) && !(named && isOwnHost(named, { listening: host, allowed: [] }))) {
    return plain(403, 'foreign-host: Use localhost or the address that it listens on.');
  }
  if (!options.isAllowed(headers.authorization)) {
    const challenge = { 'www-authenticate': 'Bearer' };
    return {
      ...plain(401, 'token-needed: Send "Authorization: Bearer TOKEN".'),
      headers: challenge,
    };
  }
  const path = url.split('?', 1)[0];
  if (path === '/') return plain(200, 'plimsoll exporter: the metrics are at /metrics');
  if (path !== '/metrics') return plain(404, 'unknown-route: The metrics are at /metrics.');
  if (method !== 'GET' && method !== 'HEAD') {
    return { ...plain(405, 'wrong-method: Use GET.'), headers: { allow: 'GET, HEAD' } };
  }
  try {
    return {
      status: 200,
      type: 'text/plain; version=0.0.4; charset=utf-8',
      body: options.text(),
    };
  } catch (error) {
    options.fault(error);
    return plain(500, 'internal-error: See the log of the exporter.');
  }
}

function plain(status: number, text: string): Answer {
  return { status, type: 'text/plain; charset=utf-8', body: `${text}\n` };
}

function send(
  { method }: IncomingMessage,
  response: ServerResponse,
  { status, type, body, headers }: Answer,
): void {
  response.writeHead(status, {
    ...securityHeaders,
    ...headers,
    'content-type': type,
    'content-length': String(Buffer.byteLength(body)),
    'cache-control': 'no-store',
  });
  response.end(method === 'HEAD' ? undefined : body);
}
