import type { HttpBindings } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { OpenAPIHono } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { Failure } from '../failure.js';
import { type Gate, requireIdentity } from './access/identify.js';
import { answerToError, type ErrorReport } from './errors/answer-to-error.js';
import { noPage, tooBusy, unknownRoute, wrongMethod } from './errors/refusals.js';
import { serverLimits } from './http/limits.js';
import { securityHeaders } from './http/security-headers.js';
import type { StrangerConnections } from './http/stranger-connections.js';
import { UnsentBytes } from './http/unsent-bytes.js';
import { IncomingBytes } from './input/incoming-bytes.js';
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
  readonly strangers: StrangerConnections;
  readonly webFiles: WebFiles;
  readonly metrics: Metrics;
  readonly report: (request: ErrorReport) => void;
}

/** All routes, over whatever answers them. Who may ask at all was judged before. */
export function createApp(options: AppOptions): ServerApp {
  const { gate, strangers, metrics, report } = options;
  const app: ServerApp = new OpenAPIHono<Bindings>();
  const unsent = new UnsentBytes(serverLimits.unsentBytes);
  const unsentToStrangers = new UnsentBytes(serverLimits.strangersUnsentBytes);
  const bodies = new IncomingBytes();
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
      // What breaks because the client left is nobody's fault.
      if (!(error instanceof Failure) && !outgoing.destroyed) fault = error;
    }
    const status = answer === 'sent' ? 200 : answer.status;
    metrics.countRequest({ method, route, status });
    report({ method, path, status, error: fault });
    if (answer === 'sent') return RESPONSE_ALREADY_SENT;
    if (answer.body !== null) countUnsent(answer.body.length, context.env);
    return new Response(answer.body, {
      status,
      headers: { ...securityHeaders, ...answer.headers },
    });
  }

  for (const operation of operations) {
    const { route, pattern, open } = operation;
    app.openAPIRegistry.registerPath(route);
    app.on([route.method.toUpperCase()], [pattern], (context) =>
      respond(context, pattern, async () => {
        const { incoming, outgoing } = context.env;
        const { authorization, cookie } = incoming.headers;
        const address = incoming.socket.remoteAddress ?? '';
        const mayStay = await requireIdentity(open ? undefined : gate, {
          address,
          authorization,
          cookie,
        });
        if (!open) {
          strangers.isKnown(incoming.socket);
          if (unsent.isTooMuch) throw tooBusy();
        }
        return operation.answer(context.req.param(), new URL(context.req.url).searchParams, {
          incoming,
          outgoing,
          mayStay,
          bodies,
          get signal() {
            return context.req.raw.signal;
          },
        });
      }),
    );
  }

  const methodsOf = methodTable(operations);
  app.notFound((context) => {
    const { method, path } = context.req;
    const file = webAnswer(options.webFiles, path, context.env.incoming.headers);
    const isRead = method === 'GET' || method === 'HEAD';
    return respond(context, file && isRead ? 'page' : 'unknown', () => {
      if (file && isRead) return file;
      const allowed = file ? ['GET'] : methodsOf(path);
      if (allowed.length > 0) return notAllowed(method, path, allowed);
      throw path === '/' ? noPage() : unknownRoute(method, path);
    });
  });
  return app;
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
