import type { IncomingMessage, ServerResponse } from 'node:http';
import type { HttpBindings } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { OpenAPIHono } from '@hono/zod-openapi';
import type { Context, Env } from 'hono';
import { Failure } from '../failure.js';
import type { AuditLog, AuditParts } from './access/audit-log.js';
import { type Asker, type Gate, type Identified, requireIdentity } from './access/identify.js';
import { requirePermission } from './access/permissions.js';
import { answerToError, type ErrorReport } from './errors/error-body.js';
import { statusOf } from './errors/error-status.js';
import { noPage, tooBusy, unknownRoute, wrongMethod } from './errors/refusals.js';
import { securityHeaders, whenAnswered } from './http/exchanges.js';
import { serverLimits } from './http/limits.js';
import type { StrangerConnections } from './http/listen.js';
import { IncomingBytes } from './input/read-body.js';
import { addressOf, peerOf } from './local/peer-credentials.js';
import type { Metrics } from './metrics/metrics.js';
import { documentOperation } from './routes/document-routes.js';
import type { Answer, Operation } from './routes/operation.js';
import type { Bytes, WebFile, WebFiles } from './web/web-files.js';

type Bindings = { Bindings: HttpBindings };
export type ServerApp = OpenAPIHono<Bindings>;

export interface AppOptions {
  readonly operations: readonly Operation[];
  readonly version: string;
  readonly gate: Gate | undefined;
  readonly audit: AuditLog | undefined;
  readonly strangers: StrangerConnections;
  readonly webFiles: WebFiles;
  readonly metrics: Metrics;
  readonly report: (request: ErrorReport) => void;
}

/** Somebody wanted what he may not have. */
const refusals: ReadonlySet<number> = new Set([401, 403, 429]);

function askerOf({ socket, headers }: IncomingMessage): Asker {
  return {
    address: addressOf(socket),
    peer: peerOf(socket),
    authorization: headers.authorization,
    cookie: headers.cookie,
  };
}

/** All routes, over whatever answers them. Who may ask at all was judged before. */
export function createApp(options: AppOptions): ServerApp {
  const { gate, strangers, metrics, report } = options;
  const app: ServerApp = new OpenAPIHono<Bindings>();
  const unsent = new UnsentBytes(serverLimits.unsentBytes);
  const unsentToStrangers = new UnsentBytes(serverLimits.strangersUnsentBytes);
  const bodies = new IncomingBytes();
  const turns = new Turns();
  const cookieName = gate?.sessions.cookieName;
  registerSecurity(app, cookieName);
  let document: string | undefined;
  const operations = [
    ...options.operations,
    documentOperation(() => {
      document ??= JSON.stringify(openApiDocument(app, { version: options.version, cookieName }));
      return document;
    }),
  ];

  const countUnsent = (bytes: number, env: HttpBindings): void => {
    if (!strangers.has(env.incoming.socket)) return unsent.count(bytes, env);
    unsentToStrangers.count(bytes, env);
    // The newest is let through: it may be the owner, who opens the page.
    unsentToStrangers.cutOldest();
  };

  async function respond(
    context: Context<Bindings>,
    route: string,
    produce: () => Answer | Promise<Answer>,
  ): Promise<Response> {
    const { method, path } = context.req;
    const { outgoing } = context.env;
    let answer: Answer;
    let fault: unknown;
    try {
      answer = await produce();
    } catch (error) {
      answer = answerToError(error);
      // What breaks because the client left is not a fault of the server.
      if (!(error instanceof Failure) && !outgoing.destroyed) fault = error;
    }
    const status = answer === 'sent' ? 200 : answer.status;
    metrics.countRequest({ method, route, status });
    report({ method, path, status, error: fault });
    if (answer === 'sent') return RESPONSE_ALREADY_SENT;
    if (answer.body !== null) countUnsent(answer.body.length, context.env);
    send(outgoing, answer);
    return RESPONSE_ALREADY_SENT;
  }

  async function perform(operation: Operation, context: Context<Bindings>): Promise<Answer> {
    const { incoming, outgoing } = context.env;
    const asker = askerOf(incoming);
    let who: Identified | undefined;
    const { id } = context.req.param();
    let parts: AuditParts =
      operation.pattern.startsWith('/jobs/') && id ? { job: id.slice(0, 20) } : {};
    const note = (outcome: 'done' | 'refused', code?: string): void =>
      options.audit?.write({
        who: (operation.open ? undefined : who?.identity.name) ?? 'unknown',
        via: (operation.open ? undefined : who?.via) ?? 'none',
        from: asker.address,
        action: operation.audit ?? operation.id,
        outcome,
        code,
        ...parts,
      });
    try {
      who = await requireIdentity(operation.open ? undefined : gate, asker);
      if (!operation.open) {
        strangers.isKnown(incoming.socket);
        requirePermission(who.identity, operation.needs);
        if (unsent.isTooMuch) throw tooBusy();
      }
      const answer = await operation.answer(
        context.req.param(),
        new URL(context.req.url).searchParams,
        {
          incoming,
          outgoing,
          who,
          about: (more) => {
            parts = { ...parts, ...more };
          },
          bodies,
          get signal() {
            return context.req.raw.signal;
          },
        },
      );
      if (operation.audit !== undefined) note('done');
      return answer;
    } catch (error) {
      if (error instanceof Failure && refusals.has(statusOf(error))) note('refused', error.code);
      throw error;
    }
  }

  for (const operation of operations) {
    const { route, pattern } = operation;
    app.openAPIRegistry.registerPath(route);
    app.on([route.method.toUpperCase()], [pattern], (context) =>
      respond(context, pattern, () => perform(operation, context)),
    );
  }

  const methodsOf = methodTable(operations);
  app.notFound((context) => {
    const { method, path } = context.req;
    const file = webAnswer(options.webFiles, path, context.env.incoming.headers);
    const isRead = method === 'GET' || method === 'HEAD';
    return respond(context, file && isRead ? 'page' : 'unknown', async () => {
      if (file && isRead) {
        if (strangers.has(context.env.incoming.socket)) await turns.next();
        return file;
      }
      const allowed = file ? ['GET'] : methodsOf(path);
      if (allowed.length > 0) return notAllowed(method, path, allowed);
      throw path === '/' ? noPage() : unknownRoute(method, path);
    });
  });
  return app;
}

/** Written by ourselves: a `Response` would be read through a stream. */
function send(outgoing: ServerResponse, { status, body, headers }: Exclude<Answer, 'sent'>): void {
  const length = body === null ? undefined : Buffer.byteLength(body);
  outgoing.writeHead(status, {
    ...securityHeaders,
    ...headers,
    ...(length !== undefined && { 'content-length': length }),
  });
  outgoing.end(body ?? undefined);
}

function notAllowed(method: string, path: string, allowed: readonly string[]): Answer {
  const answer = answerToError(wrongMethod(method, path, allowed));
  if (answer === 'sent') return answer;
  return { ...answer, headers: { ...answer.headers, allow: allowed.join(', ') } };
}

/** Which methods a path takes; none where there is no such path. */
function methodTable(operations: readonly Operation[]): (path: string) => readonly string[] {
  const table = operations.map(({ pattern, route }) => ({
    matches: new RegExp(`^${pattern.replaceAll('.', '\\.').replaceAll(/:\w+/g, '[^/]+')}$`),
    method: route.method.toUpperCase(),
  }));
  return (path) => table.filter(({ matches }) => matches.test(path)).map(({ method }) => method);
}

/** Smaller answers fit the buffers of a connection. */
const smallBytes = 16 * 1024;

interface Unsent {
  readonly bytes: number;
  readonly incoming: IncomingMessage;
}

/** Large answers that slow clients have not taken yet: together they must not fill the memory. */
export class UnsentBytes {
  readonly #most: number;
  /** Oldest first. */
  readonly #answers = new Set<Unsent>();
  #bytes = 0;

  constructor(most: number) {
    this.#most = most;
  }

  get isTooMuch(): boolean {
    return this.#bytes > this.#most;
  }

  count(
    bytes: number,
    { incoming, outgoing }: { incoming: IncomingMessage; outgoing: ServerResponse },
  ): void {
    if (bytes <= smallBytes) return;
    const answer = { bytes, incoming };
    this.#answers.add(answer);
    this.#bytes += bytes;
    whenAnswered(incoming, outgoing, () => this.#remove(answer));
  }

  /** Closes the connections of those who wait longest until the rest is below the limit. */
  cutOldest(): void {
    for (const answer of this.#answers) {
      if (!this.isTooMuch) return;
      this.#remove(answer);
      answer.incoming.socket.destroy();
    }
  }

  #remove(answer: Unsent): void {
    if (this.#answers.delete(answer)) this.#bytes -= answer.bytes;
  }
}

/** Of what costs some tenths of a millisecond each: a turn of the event loop stays short. */
const perTurn = 2;

/**
 * Spreads work over turns of the event loop, so that a new connection and what others ask come in
 * between: Node accepts one connection a turn. The newest goes first: under a flood of requests it may
 * be the owner, who opens the page.
 */
export class Turns {
  readonly #waiting: (() => void)[] = [];
  #isOn = false;

  get count(): number {
    return this.#waiting.length;
  }

  /** Resolves when it is the caller's turn. */
  next(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      if (this.#isOn) return;
      this.#isOn = true;
      setImmediate(() => this.#go());
    });
  }

  #go(): void {
    for (let left = perTurn; left > 0; left--) this.#waiting.pop()?.();
    this.#isOn = this.#waiting.length > 0;
    if (this.#isOn) setImmediate(() => this.#go());
  }
}

const description =
  'The load line for GPU memory: jobs packed by memory, devices, estimates and plans. Bytes are integers; what could not be read is the word "unknown". Every error is {"error":{"code","fact","next"}}.';

/**
 * The OpenAPI document of all that was registered. Paths begin at the server itself, so that it is
 * right behind whatever address it was fetched from.
 */
function openApiDocument<E extends Env>(
  app: OpenAPIHono<E>,
  { version, cookieName }: { readonly version: string; readonly cookieName: string | undefined },
): unknown {
  const tokens = [{ token: [] }, { session: [] }];
  return app.getOpenAPI31Document({
    openapi: '3.1.0',
    info: {
      title: 'Plimsoll',
      version,
      description,
      license: { name: 'MIT' },
    },
    servers: [{ url: '/' }],
    // Without a token on the server none is needed, and one that is sent does no harm.
    security: cookieName === undefined ? [{}, ...tokens] : tokens,
    tags: [
      { name: 'jobs', description: 'What people asked to run.' },
      { name: 'devices', description: 'Memory, and how much of it is reserved.' },
      { name: 'answers', description: 'What a workload needs, and how it fits.' },
      { name: 'events', description: 'What happens, as it happens.' },
      { name: 'server', description: 'The server itself.' },
    ],
  });
}

/** How to show who one is. */
function registerSecurity<E extends Env>(
  { openAPIRegistry }: OpenAPIHono<E>,
  cookieName = 'plimsoll_session',
): void {
  openAPIRegistry.registerComponent('securitySchemes', 'token', {
    type: 'http',
    scheme: 'bearer',
    description: 'Needed where the server was started with a token; always beyond loopback.',
  });
  openAPIRegistry.registerComponent('securitySchemes', 'session', {
    type: 'apiKey',
    in: 'cookie',
    name: cookieName,
    description: 'For browsers: POST /session trades the token for it.',
  });
}

/** The file that is asked for, or nothing where there is none of that name. */
export function webAnswer(
  files: WebFiles,
  path: string,
  headers: {
    readonly 'accept-encoding'?: string | undefined;
    readonly 'if-none-match'?: string | undefined;
  },
): Answer | undefined {
  const file = files.get(path === '/index.html' ? '/' : path);
  if (file === undefined) return undefined;
  const caching = {
    etag: file.etag,
    vary: 'accept-encoding',
    'cache-control': file.isForever ? 'public, max-age=31536000, immutable' : 'no-cache',
  };
  if (matchesTag(headers['if-none-match'], file.etag)) {
    return { status: 304, body: null, headers: caching };
  }
  const { bytes, packing } = choosePacking(file, headers['accept-encoding'] ?? '');
  return {
    status: 200,
    body: bytes,
    headers: {
      'content-type': file.type,
      ...caching,
      ...(packing !== undefined && { 'content-encoding': packing }),
    },
  };
}

function matchesTag(header: string | undefined, etag: string): boolean {
  return (header ?? '')
    .split(',')
    .some((one) => one.trim() === '*' || one.trim().replace(/^W\//, '') === etag);
}

/** The smallest that the client says it takes. */
function choosePacking(
  { bytes, packed }: WebFile,
  accepted: string,
): { readonly bytes: Bytes; readonly packing?: string } {
  const words = new Set(
    accepted
      .toLowerCase()
      .split(',')
      // Split at the sign alone: an expression with the spaces around it takes ages over many spaces.
      .map((word) => word.split(';').map((part) => part.trim()))
      .filter(([, quality]) => !/^q=0(\.0*)?$/.test(quality ?? ''))
      .map(([word]) => word),
  );
  for (const packing of ['br', 'gzip'] as const) {
    const found = packed.get(packing);
    if (found !== undefined && words.has(packing)) return { bytes: found, packing };
  }
  return { bytes };
}
