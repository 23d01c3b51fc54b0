import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

export interface Asked {
  readonly method: string;
  readonly url: string;
  readonly authorization: string | undefined;
  readonly body: string;
}

export interface ServerForTests {
  readonly url: string;
  readonly port: number;
  /** All that was asked, in its order. */
  readonly asked: readonly Asked[];
  close(): Promise<void>;
}

/** A real HTTP server that answers as a test wants it; closed when the test ends. */
export async function serverForTests(
  answer: (asked: Asked, response: ServerResponse, request: IncomingMessage) => void,
  port = 0,
): Promise<ServerForTests> {
  const asked: Asked[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      const body = Buffer.concat(chunks).toString();
      const one = { method, url, authorization: headers.authorization, body };
      asked.push(one);
      answer(one, response, request);
    });
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  onTestFinished(close);
  const address = server.address();
  const bound = isBound(address) ? address.port : 0;
  return { url: `http://127.0.0.1:${bound}`, port: bound, asked, close };
}

function isBound(address: AddressInfo | string | null): address is AddressInfo {
  return typeof address === 'object' && address !== null;
}

export function answerJson(response: ServerResponse, document: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(document));
}

/** A part of a log as the server gives it: from a byte on, at most `most`. */
export function answerLog(
  { url }: Asked,
  response: ServerResponse,
  log: Uint8Array,
  most = 1024 * 1024,
): void {
  const from = Number(new URL(url, 'http://x').searchParams.get('from'));
  const bytes = log.subarray(from, from + most);
  response.writeHead(200, {
    'content-type': 'text/plain',
    'x-log-size': log.byteLength,
    'x-log-next': from + bytes.byteLength,
  });
  response.end(bytes);
}
