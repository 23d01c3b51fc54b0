import type { Server } from 'node:http';
import { hostname } from 'node:os';
import { Failure } from '../failure.js';
import type { Daemon } from '../jobs/daemon/types.js';
import type { Clock } from '../time/clock.js';
import { AuditLog } from './access/audit-log.js';
import { checkAllowedHosts } from './access/hosts.js';
import { type Gate, loginLink } from './access/identify.js';
import { LoginLinks } from './access/login-links.js';
import { openPeople, type People } from './access/people.js';
import { Sessions } from './access/sessions.js';
import { checkToken } from './access/token.js';
import type { UserStore } from './access/users/user-store.js';
import { WrongTokens } from './access/wrong-tokens.js';
import { createApp } from './app.js';
import type { ErrorReport } from './errors/answer-to-error.js';
import { EventHub } from './events/event-hub.js';
import { closeServers } from './http/close-server.js';
import { createHttpServer } from './http/http-listener.js';
import { serverLimits } from './http/limits.js';
import { listen } from './http/listen.js';
import { requestLine } from './http/request-line.js';
import { StrangerConnections } from './http/stranger-connections.js';
import { type LocalPeopleOptions, openLocalPeople } from './local/local-people.js';
import { type LocalSocketOptions, openLocalSocket } from './local/open-local-socket.js';
import { openMetrics } from './metrics/metrics.js';
import { ReadingPulse } from './reading-pulse.js';
import { answerOperations, type ReadableFor } from './routes/answer-routes.js';
import type { Answers } from './routes/answerers.js';
import { deviceOperations } from './routes/device-routes.js';
import { metricsOperation } from './routes/document-routes.js';
import { eventOperation } from './routes/event-route.js';
import { type FleetSource, fleetOperation } from './routes/fleet-routes.js';
import { jobOperations, type SubmitterOf } from './routes/job-routes.js';
import { logOperation } from './routes/log-route.js';
import { noSnapshotPages, reportOperations, type SnapshotPage } from './routes/report-routes.js';
import { sessionOperations } from './routes/session-routes.js';
import { statusOperations } from './routes/status-routes.js';
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
  /** Where the audit log is kept; left out, there is none. */
  readonly auditHome?: string | undefined;
  /** What the job of somebody runs as; left out, what the daemon itself is. */
  readonly submitterOf?: SubmitterOf | undefined;
  /** Makes the pages of snapshots; left out, there are none. */
  readonly snapshotPage?: SnapshotPage | undefined;
  /** What of a workload the server reads for a client; throws where it reads nothing of it. */
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
  const { daemon, host, port, token, clock, version } = options;
  const allowed = options.allowedHosts ?? [];
  checkToken(host, token);
  checkAllowedHosts(allowed);
  const webFiles =
    options.webFolder === undefined ? new Map() : await readWebFiles(options.webFolder);
  const closing = new AbortController();
  const openedAt = clock.seconds();
  const pulse = new ReadingPulse(() => clock.seconds());
  const stopPulse = daemon.listen(({ type }) => {
    if (type === 'devices') pulse.heard();
  });
  const hub = new EventHub(daemon, clock);
  const metrics = openMetrics(daemon, () => hub.count, { name: hostname(), version });
  const gate = token === undefined ? undefined : gateOf(token, options, closing.signal);
  const report = (request: ErrorReport): void => {
    const line = requestLine(request, options.logRequests ?? false);
    if (line !== undefined) options.log(line);
  };
  const readable = options.readable ?? readsAll;
  const strangers = new StrangerConnections(serverLimits.strangerConnections);
  let pageUrl = '';
  const app = createApp({
    operations: [
      ...jobOperations(daemon, options.submitterOf ?? byName, readable),
      logOperation(daemon),
      ...reportOperations(daemon, version, options.snapshotPage ?? noSnapshotPages),
      ...deviceOperations(daemon),
      fleetOperation(options.fleet),
      ...answerOperations(options.answers, closing.signal, readable),
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
    closing.abort();
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
