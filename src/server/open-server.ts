import type { Server } from 'node:http';
import { hostname } from 'node:os';
import { z } from '@hono/zod-openapi';
import { Failure } from '../failure.js';
import type { Daemon } from '../jobs/daemon/types.js';
import type { Clock } from '../time/clock.js';
import { checkArguments, number, object, string } from '../units/arguments.js';
import { AuditLog } from './access/audit-log.js';
import { checkAllowedHosts } from './access/hosts.js';
import { type Gate, LoginLinks, loginLink } from './access/identify.js';
import { openPeople, type People } from './access/people.js';
import { requireOwn } from './access/permissions.js';
import { Sessions } from './access/sessions.js';
import { checkToken, WrongTokens } from './access/token.js';
import type { UserStore } from './access/users/user-store.js';
import { createApp } from './app.js';
import { type ErrorReport, readable } from './errors/error-body.js';
import { EventHub } from './events/event-hub.js';
import { createHttpServer } from './http/http-listener.js';
import { serverLimits } from './http/limits.js';
import { closeServers, listen, StrangerConnections } from './http/listen.js';
import { type LocalPeopleOptions, openLocalPeople } from './local/local-people.js';
import { type LocalSocketOptions, openLocalSocket } from './local/open-local-socket.js';
import { openMetrics } from './metrics/metrics.js';
import { answerOperations, type ReadableFor } from './routes/answer-routes.js';
import { metricsOperation } from './routes/document-routes.js';
import { eventOperation } from './routes/event-route.js';
import { deviceExample } from './routes/examples.js';
import { type FleetSource, fleetOperation } from './routes/fleet-routes.js';
import { jobIdParams, jobOperations, type SubmitterOf } from './routes/job-routes.js';
import {
  type Answers,
  jsonAnswer,
  jsonContent,
  noBody,
  nothing,
  type Operation,
  operation,
} from './routes/operation.js';
import { noSnapshotPages, reportOperations, type SnapshotPage } from './routes/report-routes.js';
import { sessionOperations } from './routes/session-routes.js';
import { ReadingPulse, statusOperations } from './routes/status-routes.js';
import { deviceHistorySchema, deviceListSchema } from './schemas/common.js';
import { readWebFiles } from './web/web-files.js';

export interface ServerOptions {
  readonly daemon: Daemon;
  readonly answers: Answers;
  /** `127.0.0.1`; whatever others can reach needs a token. */
  readonly host: string;
  /** 0 takes any free one. */
  readonly port: number;
  readonly token?: string | undefined;
  /** A socket on this machine beside it, where clients are known by their accounts. */
  readonly local?: LocalAccess | undefined;
  /** People with tokens of their own; left out, the token of the server is the only one. */
  readonly users?: UserStore | undefined;
  /** The folder of the audit log; without it there is none. */
  readonly auditHome?: string | undefined;
  /** Returns the account of a person's jobs; the daemon's own if absent. */
  readonly submitterOf?: SubmitterOf | undefined;
  /** Makes the pages of snapshots; left out, there are none. */
  readonly snapshotPage?: SnapshotPage | undefined;
  /** Reads the files of a workload for a client; throws if it may read none of them. */
  readonly readable?: ReadableFor | undefined;
  /** Asks a Prometheus for all nodes; left out, there is no fleet. */
  readonly fleet?: FleetSource | undefined;
  /** Further names in `Host` and `Origin`, as a proxy in front has them. */
  readonly allowedHosts?: readonly string[] | undefined;
  /** The folder dist/web; without it there is no page. */
  readonly webFolder?: string | undefined;
  readonly version: string;
  readonly clock: Clock;
  /** Faults of ours, and each request where `logRequests`. */
  log(line: string): void;
  readonly logRequests?: boolean | undefined;
}

export interface LocalAccess
  extends LocalSocketOptions,
    Pick<LocalPeopleOptions, 'nameOf' | 'isUnknown'> {
  /** It was not asked for: where it cannot be opened the server goes on without it, and says so. */
  readonly isOptional: boolean;
}

export interface OpenServer {
  readonly url: string;
  readonly port: number;
  /** The path of its local socket; null where there is none. */
  readonly socket: string | null;
  /** An address that logs one browser in, once; that of the page where no token is asked for. */
  readonly pageLink: () => string;
  /** Streams end, requests under way get a moment, then all is closed. The daemon is not. */
  close(): Promise<void>;
}

const serverRules = { daemon: object, answers: object, host: string, port: number, clock: object };

/**
 * Serves a daemon over HTTP: the API, events, metrics and the page.
 *
 * @example
 * const server = await openServer({
 *   daemon, answers, host: '127.0.0.1', port: 8000, version: '1.0.0', clock: systemClock, log,
 * });
 * console.log(server.url); // 'http://127.0.0.1:8000'
 * await server.close();
 */
export async function openServer(options: ServerOptions): Promise<OpenServer> {
  checkArguments('openServer', { ...Object(options) }, serverRules);
  const { daemon, host, port, token, clock, version } = options;
  const allowed = options.allowedHosts ?? [];
  checkToken(host, token);
  checkAllowedHosts(allowed);
  const webFiles =
    options.webFolder === undefined ? new Map() : await readWebFiles(options.webFolder);
  const serverClosing = new AbortController();
  const openedAt = clock.seconds();
  const pulse = new ReadingPulse(() => clock.seconds());
  const stopPulse = daemon.listen(({ type }) => {
    if (type === 'devices') pulse.heard();
  });
  const hub = new EventHub(daemon, clock);
  const metrics = openMetrics(daemon, () => hub.count, { name: hostname(), version });
  const gate = token === undefined ? undefined : gateOf(token, options, serverClosing.signal);
  const report = (request: ErrorReport): void => {
    const line = requestLine(request, options.logRequests ?? false);
    if (line !== undefined) options.log(line);
  };
  const readableTo = options.readable ?? readsAll;
  const strangers = new StrangerConnections(serverLimits.strangerConnections);
  let pageUrl = '';
  const app = createApp({
    operations: [
      ...jobOperations(daemon, options.submitterOf ?? byName, readableTo),
      logOperation(daemon),
      ...reportOperations(daemon, version, options.snapshotPage ?? noSnapshotPages),
      ...deviceOperations(daemon),
      fleetOperation(options.fleet),
      ...answerOperations(options.answers, serverClosing.signal, readableTo),
      ...statusOperations({
        daemon,
        version,
        pulse,
        uptimeSeconds: () => clock.seconds() - openedAt,
      }),
      eventOperation(hub),
      ...sessionOperations(
        gate,
        () => hub.dismiss(),
        () => pageUrl,
      ),
      metricsOperation(metrics),
    ],
    version,
    gate,
    audit: auditOf(options),
    strangers,
    webFiles,
    metrics,
    report,
  });
  const create = (): Server =>
    createHttpServer({
      app,
      policy: { listening: host, allowed },
      strangers,
      fault: (error) => report({ method: '', path: '', status: 500, error }),
      refused(request) {
        metrics.countRequest({ ...request, route: 'refused' });
        report(request);
      },
    });
  const server = create();
  const stopAll = (): void => {
    serverClosing.abort();
    stopPulse();
    hub.close();
    metrics.close();
  };
  const servers: Server[] = [server];
  let closed: Promise<void> | undefined;
  const close = () => (closed ??= closeServers(servers, stopAll, clock));
  const place = await listen(server, host, port).catch((error: unknown) => {
    stopAll();
    throw error;
  });
  pageUrl = place.url;
  if (options.local !== undefined) {
    const beside = create();
    try {
      await openLocalSocket(beside, options.local);
      servers.push(beside);
    } catch (error) {
      if (!options.local.isOptional || !(error instanceof Failure)) {
        await close();
        throw error;
      }
      options.log(`plimsoll: ${error.fact}`);
    }
  }
  for (const one of servers) {
    // Such as too many open files: the server goes on.
    one.on('error', (error) =>
      options.log(`The server cannot take a connection: ${error.message}`),
    );
  }
  return {
    ...place,
    socket: servers.length > 1 ? (options.local?.path ?? null) : null,
    pageLink: () => (gate === undefined ? place.url : `${place.url}${loginLink(gate)}`),
    close,
  };
}

const readsAll: ReadableFor = (_, workload) => workload;
const byName: SubmitterOf = ({ name }) => Promise.resolve({ name });

function auditOf(options: ServerOptions): AuditLog | undefined {
  const { auditHome: home, clock } = options;
  if (home === undefined) return undefined;
  return new AuditLog({
    home,
    epochMs: () => clock.epochMs(),
    trouble: (line) => options.log(line),
  });
}

function gateOf(
  token: string,
  { clock, users, local: own }: ServerOptions,
  closed: AbortSignal,
): Gate {
  const added = openPeople(token, users);
  const local =
    own && openLocalPeople({ ...own, token, byAccount: (account) => added.byAccount(account) });
  const people: People = {
    ...added,
    bySubject: (subject) => added.bySubject(subject) ?? local?.bySubject(subject),
  };
  return {
    token,
    people,
    local,
    sessions: new Sessions({
      token,
      epochMs: () => clock.epochMs(),
      secretOf: (subject) => people.bySubject(subject)?.secret,
    }),
    links: new LoginLinks(() => clock.seconds()),
    wrongTokens: new WrongTokens({
      most: serverLimits.wrongTokens,
      delaySeconds: serverLimits.wrongTokenSeconds,
      maxDelayed: serverLimits.heldAnswers,
      clock,
      closed,
    }),
  };
}

/** An address in a log is cut here: it may be long, and anybody may write it. */
const shownCharacters = 200;

/** One line for the log, or nothing where there is nothing worth one. */
function requestLine(
  { method, path, status, error }: ErrorReport,
  everyRequest: boolean,
): string | undefined {
  if (error === undefined && !everyRequest) return undefined;
  const line = readable(`${method} ${path.slice(0, shownCharacters)} ${status}`);
  return error === undefined ? line : `${line}: ${describeFault(error)}`;
}

function describeFault(error: unknown): string {
  if (error instanceof Error) return error.stack ?? error.message;
  return typeof error === 'string' ? error : JSON.stringify(error);
}

function logOperation(daemon: Daemon): Operation {
  return operation({
    method: 'get',
    path: '/jobs/{id}/log',
    id: 'getJobLog',
    tag: 'jobs',
    summary: 'What a job printed',
    needs: 'work',
    description: `At most ${serverLimits.logBytes} bytes an answer. To read on, ask from X-Log-Next; where that is X-Log-Size, there is no more yet. An offset is a place in all that the job ever wrote. Of a log that is longer than its limit a part is no longer there: a line stands for it, and X-Log-Next lies behind it.`,
    params: jobIdParams,
    query: z.strictObject({
      from: z.int().min(0).max(Number.MAX_SAFE_INTEGER).optional().openapi({
        description: 'The offset of the first byte wanted; 0 where it is left out.',
        example: 0,
      }),
      tail: z.int().min(0).max(serverLimits.logBytes).optional().openapi({
        description: 'Instead of from: the last so many bytes.',
      }),
    }),
    body: noBody,
    answers: {
      200: {
        description: 'The bytes, as the job wrote them, and a line where some are missing.',
        headers: z.object({
          'x-log-size': z.int().openapi({ description: 'Bytes of the whole log.', example: 1024 }),
          'x-log-next': z
            .int()
            .openapi({ description: 'The offset to read on from.', example: 17 }),
          'x-log-from': z
            .int()
            .openapi({ description: 'The offset of the first byte here.', example: 0 }),
        }),
        content: { 'text/plain': { schema: z.string(), example: 'step 1 loss 2.31\n' } },
      },
    },
    errors: [404],
    async handle({ params, query: { from, tail } }, { who }) {
      requireOwn(who.identity, daemon.job(params.id), 'read its log');
      if (from !== undefined && tail !== undefined) throw eitherOr();
      const start = tail === undefined ? (from ?? 0) : await tailStart(daemon, params.id, tail);
      const most = tail ?? serverLimits.logBytes;
      const { bytes, size, next } = await daemon.readLog(params.id, start, most);
      return {
        status: 200,
        body: new Uint8Array(bytes),
        headers: {
          'content-type': 'text/plain; charset=utf-8',
          'cache-control': 'no-store',
          'x-log-size': String(size),
          'x-log-next': String(next),
          'x-log-from': String(start),
        },
      };
    },
  });
}

async function tailStart(daemon: Daemon, id: string, tail: number): Promise<number> {
  const { size } = await daemon.readLog(id, 0, 0);
  return Math.max(0, size - tail);
}

function eitherOr(): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-option',
    fact: 'Both from and tail are given.',
    next: 'Leave one of them out.',
  });
}

const tag = 'devices';
const defaultHistorySeconds = 600;
const defaultHistoryPoints = 600;

function deviceOperations(daemon: Daemon): readonly Operation[] {
  return [
    operation({
      method: 'get',
      path: '/devices',
      id: 'listDevices',
      tag,
      summary: 'Devices, with what is reserved of them',
      params: nothing,
      query: nothing,
      body: noBody,
      answers: { 200: jsonContent(deviceListSchema, 'The devices.', { devices: [deviceExample] }) },
      handle: () => jsonAnswer({ devices: daemon.devices() }),
    }),
    operation({
      method: 'get',
      path: '/devices/{id}/history',
      id: 'getDeviceHistory',
      tag,
      summary: 'Use of a device over time',
      params: z.strictObject({
        id: z.string().min(1).max(200).openapi({ description: 'Its id.', example: 'gpu:0' }),
      }),
      query: z.strictObject({
        seconds: z
          .int()
          .min(1)
          .max(serverLimits.historySeconds)
          .optional()
          .openapi({
            description: `How far back; ${defaultHistorySeconds} where it is left out.`,
            example: 60,
          }),
        points: z
          .int()
          .min(1)
          .max(serverLimits.historyPoints)
          .optional()
          .openapi({
            description: `At most so many; ${defaultHistoryPoints} where it is left out.`,
            example: 100,
          }),
      }),
      body: noBody,
      answers: {
        200: jsonContent(deviceHistorySchema, 'The series.', {
          id: 'gpu:0',
          epochMs: [1_767_225_600_000],
          usedMax: [5_368_709_120],
          usedMin: [5_368_709_120],
          alerts: [],
        }),
      },
      errors: [404],
      handle: ({ params, query }) =>
        jsonAnswer(
          daemon.deviceHistory(
            params.id,
            query.seconds ?? defaultHistorySeconds,
            query.points ?? defaultHistoryPoints,
          ),
        ),
    }),
  ];
}
