import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import {
  type AdmissionRules,
  answerReview,
} from '../../engine/kubernetes/admission/answer-review.js';
import { readReview } from '../../engine/kubernetes/admission/review.js';
import { Failure } from '../../failure.js';
import { MiB } from '../../units/bytes.js';
import { errorAnswer, internalError } from '../errors/error-body.js';
import { unknownRoute, wrongMethod } from '../errors/refusals.js';
import { serverLimits } from '../http/limits.js';
import { securityHeaders } from '../http/security-headers.js';
import { IncomingBytes } from '../input/incoming-bytes.js';
import { readJson } from '../input/read-body.js';

/** The object and the one before it, of 3 MiB each at most in Kubernetes, and room around them. */
const reviewBytes = 8 * MiB;
/** An API server keeps some open; a flood must not fill the memory. */
const connections = 256;

/** Certificate and key, as PEM. */
export interface Certificate {
  readonly cert: Buffer;
  readonly key: Buffer;
}

/** A server that an API server of Kubernetes asks about new pods; it does not listen yet. */
export function createWebhookServer(certificate: Certificate, rules: AdmissionRules): Server {
  const bodies = new IncomingBytes();
  const server = createServer(
    {
      ...certificate,
      minVersion: 'TLSv1.2',
      handshakeTimeout: serverLimits.headersSeconds * 1000,
      maxHeaderSize: serverLimits.headerBytes,
      headersTimeout: serverLimits.headersSeconds * 1000,
      requestTimeout: serverLimits.requestSeconds * 1000,
      keepAliveTimeout: serverLimits.keepAliveSeconds * 1000,
    },
    (request, response) => {
      void answerTo(request, bodies, rules).then((answer) => send(response, answer));
    },
  );
  server.maxConnections = connections;
  server.timeout = serverLimits.silentSeconds * 1000;
  return server;
}

interface Answer {
  readonly status: number;
  readonly body: object;
  readonly headers?: Readonly<Record<string, string>>;
}

async function answerTo(
  request: IncomingMessage,
  bodies: IncomingBytes,
  rules: AdmissionRules,
): Promise<Answer> {
  try {
    const { method = '', url = '' } = request;
    const path = url.split('?', 1)[0] ?? '';
    if (path === '/healthz') return { status: 200, body: { status: 'ok' } };
    if (path !== '/mutate') throw unknownRoute(method, path);
    if (method !== 'POST') throw wrongMethod(method, path, ['POST']);
    const review = readReview(await readJson(request, { maxBytes: reviewBytes, bodies }));
    return { status: 200, body: await answerReview(review, rules) };
  } catch (error) {
    if (!(error instanceof Failure)) rules.fault(error);
    // What is still coming of a refused body is not waited for.
    const closing = { connection: 'close' };
    const answer = error instanceof Failure ? errorAnswer(error) : internalError;
    return { ...answer, headers: { ...answer.headers, ...closing } };
  }
}

function send(response: ServerResponse, { status, body, headers }: Answer): void {
  const text = JSON.stringify(body);
  response.writeHead(status, {
    ...securityHeaders,
    ...headers,
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(text)),
    'cache-control': 'no-store',
  });
  response.end(text);
}
