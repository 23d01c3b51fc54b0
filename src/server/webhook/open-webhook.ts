import { readFileSync, statSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import { Socket } from 'node:net';
import { createSecureContext } from 'node:tls';
import {
  type AdmissionRules,
  answerReview,
  readReview,
} from '../../engine/kubernetes/answer-review.js';
import { Failure } from '../../failure.js';
import { readReason } from '../../files/system-errors.js';
import { RememberedWork } from '../../jobs/daemon/estimates/remembered-answers.js';
import type { WorkloadRequest } from '../../plan/answers/workload-request.js';
import { type Clock, systemClock } from '../../time/clock.js';
import { MiB } from '../../units/bytes.js';
import { errorAnswer, internalError } from '../errors/error-body.js';
import { unknownRoute, wrongMethod } from '../errors/refusals.js';
import { Exchanges, securityHeaders, stopParsingWhenClosed } from '../http/exchanges.js';
import { serverLimits } from '../http/limits.js';
import { closeServers, listen, StrangerConnections } from '../http/listen.js';
import { IncomingBytes, readJson } from '../input/read-body.js';

interface WebhookOptions {
  readonly host: string;
  readonly port: number;
  /** Absolute paths of PEM files. */
  readonly certFile: string;
  readonly keyFile: string;
  readonly rules: AdmissionRules;
  /** Lines for the person who runs it. */
  readonly log: (line: string) => void;
}

export interface Webhook {
  readonly url: string;
  /** Looks at the files of the certificate, as it does by itself now and then. */
  renew(): void;
  close(): Promise<void>;
}

/** A chain of certificates has some kilobytes. */
const maxPemBytes = MiB;
/** Certificates of a cluster are renewed while it runs; a mounted secret changes within a minute or two. */
const lookMs = 30_000;

/** Listens; takes up a new certificate when the files change. */
export async function openWebhook(options: WebhookOptions): Promise<Webhook> {
  const { host, port, log } = options;
  let current = readCertificate(options);
  const server = createWebhookServer(current, options.rules);
  const { url } = await listen(server, host, port, 'https');
  server.on('error', (error) => log(`It cannot take a connection: ${error.message}`));
  let trouble = '';
  const renew = (): void => {
    try {
      const next = readCertificate(options);
      trouble = '';
      if (next.cert.equals(current.cert) && next.key.equals(current.key)) return;
      server.setSecureContext(next);
      current = next;
      log('The certificate changed; new connections use the new one.');
    } catch (error) {
      // Written in two steps, or broken: the one that works stays.
      const text = error instanceof Error ? error.message : String(error);
      if (text !== trouble) log(`The earlier certificate stays in use: ${text}`);
      trouble = text;
    }
  };
  const looking = setInterval(renew, lookMs);
  looking.unref();
  return {
    url,
    renew,
    async close() {
      clearInterval(looking);
      await closeServers([server], () => {}, systemClock);
    },
  };
}

function readCertificate({ certFile, keyFile }: WebhookOptions): Certificate {
  const certificate = { cert: readPem(certFile), key: readPem(keyFile) };
  try {
    createSecureContext(certificate);
    return certificate;
  } catch (error) {
    throw badCertificate(
      `${certFile} and ${keyFile} are not a certificate and its key: ${readReason(error)}.`,
      error,
    );
  }
}

function readPem(path: string): Buffer {
  try {
    if (statSync(path).size > maxPemBytes) throw badCertificate(`${path} is larger than 1 MiB.`);
    return readFileSync(path);
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw badCertificate(`${path} cannot be read: ${readReason(error)}.`, error);
  }
}

function badCertificate(fact: string, cause?: unknown): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-certificate',
    fact,
    next: 'Name two PEM files that belong together: --tls-cert tls.crt --tls-key tls.key',
    cause,
  });
}

/** The object and the one before it, of 3 MiB each at most in Kubernetes, and room around them. */
const reviewBytes = 8 * MiB;
/** An API server keeps some open; a flood must not fill the memory. */
const connections = 512;
/** Those of them that do not wait for an estimate; beyond it the oldest is closed. */
const idleConnections = 256;

/** As long as API servers wait that do not say; they always say. */
const usualWaitSeconds = 10;
/** Of that, for the way there and back. */
const waySeconds = 1.5;

/** Certificate and key, as PEM. */
interface Certificate {
  readonly cert: Buffer;
  readonly key: Buffer;
}

/** A server that an API server of Kubernetes asks about new pods; it does not listen yet. */
function createWebhookServer(certificate: Certificate, rules: AdmissionRules): Server {
  const bodies = new IncomingBytes();
  const exchanges = new Exchanges();
  const idle = new StrangerConnections(idleConnections);
  /** Connections below those of TLS, by the other end. */
  const below = new Map<string, Socket>();
  const answering = async <T>({ socket }: IncomingMessage, work: () => Promise<T>): Promise<T> => {
    const connection = below.get(otherEnd(socket));
    if (connection === undefined) return work();
    idle.isKnown(connection);
    try {
      return await work();
    } finally {
      idle.add(connection);
    }
  };
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
    (request, response) =>
      exchanges.take(server, request, response, () => {
        const waiting = {
          ...rules,
          estimate: (asked: WorkloadRequest, waitSeconds: number) =>
            answering(request, () => rules.estimate(asked, waitSeconds)),
        };
        void answerTo(request, bodies, waiting).then((answer) => send(response, answer));
      }),
  );
  server.on('connection', (socket) => {
    if (!(socket instanceof Socket)) return;
    const end = otherEnd(socket);
    below.set(end, socket);
    socket.once('close', () => below.delete(end));
    idle.add(socket);
  });
  server.on('secureConnection', stopParsingWhenClosed);
  server.maxConnections = connections;
  server.timeout = serverLimits.silentSeconds * 1000;
  return server;
}

function otherEnd({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
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
    return { status: 200, body: await answerReview(review, rules, waitSecondsOf(url)) };
  } catch (error) {
    if (!(error instanceof Failure)) rules.fault(error);
    // What is still coming of a refused body is not waited for.
    const closing = { connection: 'close' };
    const answer = error instanceof Failure ? errorAnswer(error) : internalError;
    return { ...answer, headers: { ...answer.headers, ...closing } };
  }
}

/** Returns the time left of the API server's wait, which the address states. */
function waitSecondsOf(url: string): number {
  const said = /[?&]timeout=(\d{1,2})s(?:&|$)/.exec(url)?.[1];
  return Math.max(waySeconds, (said === undefined ? usualWaitSeconds : Number(said)) - waySeconds);
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

/** Each is a short text and a number. */
const rememberedEstimates = 1000;
/** Different ones under way at the same time: some 20 s of work on two cores. */
const maxAtOnce = 200;

/** Estimates a workload's memory on each GPU within the given seconds. */
type ReviewEstimate = (request: WorkloadRequest, waitSeconds: number) => Promise<number>;

/**
 * Estimates for reviews. Pods of one kind ask the same, many at a time: they share one estimate, and
 * later ones get it at once. An estimate goes on when the review that asked for it can no longer wait,
 * so that the next one of this workload finds its answer.
 *
 * @example
 * const estimate = reviewEstimates((request, signal) => bytesOf(request, signal), systemClock);
 * await estimate({ model: 'gpt2', batch: 8, seq: 1024 }, 8.5);
 */
export function reviewEstimates(
  make: (request: WorkloadRequest, signal: AbortSignal) => Promise<number>,
  clock: Clock,
): ReviewEstimate {
  const known = new RememberedWork<number>(rememberedEstimates);
  let running = 0;
  const count = async (request: WorkloadRequest, signal: AbortSignal): Promise<number> => {
    if (running >= maxAtOnce) throw tooManyEstimates();
    running += 1;
    try {
      return await make(request, signal);
    } finally {
      running -= 1;
    }
  };
  return async (request, waitSeconds) => {
    const answer = known.ask(
      {
        key: JSON.stringify(request),
        make: (signal) => count(request, signal),
        keeps: () => Promise.resolve(true),
      },
      // It does not end with the review: an estimate that nobody waits for would be given up.
      new AbortController().signal,
    );
    const answered = new AbortController();
    const late = clock.waitUntil(clock.seconds() + waitSeconds, answered.signal).then(() => {
      throw estimateNotReady();
    });
    try {
      return await Promise.race([answer, late]);
    } finally {
      answered.abort();
    }
  };
}

function estimateNotReady(): Failure {
  return new Failure({
    kind: 'interrupted',
    code: 'estimate-not-ready',
    fact: 'The estimate is not ready yet; it goes on.',
    next: 'Create the pod again in a minute.',
  });
}

function tooManyEstimates(): Failure {
  return new Failure({
    kind: 'interrupted',
    code: 'too-many-estimates',
    fact: `${maxAtOnce} other workloads are being estimated.`,
    next: 'Create the pod again in a minute.',
  });
}
