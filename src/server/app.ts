import type { IncomingMessage, ServerResponse } from 'node:http';
import type { HttpBindings } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { OpenAPIHono } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { Failure } from '../failure.js';
import type { AuditLog, AuditParts } from './access/audit-log.js';
import { type Asker, type Gate, type Identified, requireIdentity } from './access/identify.js';
import { requirePermission } from './access/permissions.js';
import { answerToError, type ErrorReport } from './errors/answer-to-error.js';
import { statusOf } from './errors/error-status.js';
import { noPage, tooBusy, unknownRoute, wrongMethod } from './errors/refusals.js';
import { serverLimits } from './http/limits.js';
import { securityHeaders } from './http/security-headers.js';
import type { StrangerConnections } from './http/stranger-connections.js';
import { Turns } from './http/turns.js';
import { UnsentBytes } from './http/unsent-bytes.js';
import { IncomingBytes } from './input/incoming-bytes.js';
import { addressOf, peerOf } from './local/peers.js';
import type { Metrics } from './metrics/metrics.js';
import { openApiDocument, registerSecurity } from './openapi-document.js';
import { documentOperation } from './routes/document-routes.js';
import type { Answer, Operation } from './routes/operation.js';
import { webAnswer } from './web/web-answer.js';
import type { WebFiles } from './web/web-files.js';

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
