import { join } from 'node:path';
import { alertSinks } from '../../config/alert-sinks.js';
import { openDevices } from '../../config/open-devices.js';
import type { Settings } from '../../config/settings.js';
import type { Discovery } from '../../device/discover.js';
import { localEngine } from '../../engine/local/local-engine.js';
import { readAllocation, withinAllocation } from '../../engine/slurm/allocation.js';
import { openEstimateWork } from '../../estimate/thread/open-estimate-work.js';
import { Failure } from '../../failure.js';
import { makeFolder } from '../../files/make-folder.js';
import { packageFolder } from '../../files/package-folder.js';
import { openPrometheus, type PrometheusAddress } from '../../fleet/prometheus.js';
import { estimatesAtOnce } from '../../jobs/daemon/estimates/estimates-at-once.js';
import { estimatingHost } from '../../jobs/daemon/estimates/estimating-host.js';
import { openDaemon } from '../../jobs/daemon/open-daemon.js';
import { environmentForJobs } from '../../jobs/daemon/running/inherited-environment.js';
import type { Daemon } from '../../jobs/daemon/types.js';
import { readJobVariables } from '../../jobs/job-variables.js';
import type { PlacementPolicy } from '../../jobs/placement.js';
import type { EnvironmentChange } from '../../plan/environment/job-environment.js';
import { accountEnvironment } from '../../run/launch/become-order.js';
import { systemClock } from '../../time/clock.js';
import { findAccount } from '../access/accounts.js';
import { readableFor, submitters } from '../access/submitter.js';
import { quotasFrom } from '../access/users/quotas.js';
import { openUserStore, type UserStore } from '../access/users/user-store.js';
import { openServer } from '../open-server.js';
import { fleetSource } from './fleet-source.js';
import { localAccess } from './local-access.js';
import { serveAnswers } from './serve-answers.js';
import { readServerNote } from './server-file.js';
import { snapshotPages } from './snapshot-page.js';
import { isProcessAlive, removeStaleTemporaries } from './stale-temporaries.js';

export interface ServiceOptions {
  readonly home: string;
  readonly settings: Settings;
  readonly host: string;
  readonly port: number;
  readonly token?: string | undefined;
  /** Where it listens on this machine beside the port. */
  readonly socket?: string | undefined;
  /** Other accounts of this machine may use it without a token. */
  readonly localUsers?: boolean | undefined;
  readonly allowedHosts?: readonly string[] | undefined;
  readonly policy?: PlacementPolicy | undefined;
  /** Where the fleet is asked for; left out, there is none. */
  readonly prometheus?: PrometheusAddress | undefined;
  readonly python?: string | undefined;
  readonly logRequests?: boolean | undefined;
  readonly version: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** What was changed in it before. */
  readonly environmentChanges?: readonly EnvironmentChange[];
  /** Where jobs run that name no folder. */
  readonly folder: string;
  /** Lines for the person who runs the server. */
  log(line: string): void;
}

/** A daemon with its server, and the devices they look at. */
export interface Service {
  readonly url: string;
  /** The path of its local socket; null where there is none. */
  readonly socket: string | null;
  readonly daemon: Daemon;
  /** Opens the dashboard, once, without a token. */
  readonly pageLink: () => string;
  /** What could not be seen on this machine. */
  readonly notes: readonly string[];
  /** Jobs go on. */
  close(): Promise<void>;
}

// The sources and the build lie equally deep below the package.
const program = join(packageFolder, 'bin/plimsoll.js');
export const webFolder = join(packageFolder, 'dist/web');

/** Opens all of it, or nothing. */
export async function openService(options: ServiceOptions): Promise<Service> {
  const closers: (() => Promise<void> | void)[] = [];
  const close = async () => {
    for (const one of closers.splice(0).toReversed()) await one();
  };
  try {
    const all = await openDevices(options.settings);
    // Inside a job of Slurm the rest of the machine is others'.
    const discovery = withinAllocation(all, readAllocation(options.environment));
    closers.push(() => discovery.close());
    const estimating = openEstimateWork();
    closers.push(() => estimating.close());
    const { settings, python } = options;
    const answers = serveAnswers(settings, discovery, options, python, estimating.work);
    closers.push(() => answers.close());
    const users = await openUserStore(options.home);
    closers.push(() => users.close());
    const notes: string[] = [];
    const log = (line: string) => {
      notes.push(line);
      options.log(line);
    };
    const daemon = await daemonOf({ ...options, log }, discovery, answers, users);
    closers.push(() => daemon.close());
    // With the store, the home is ours.
    removeStaleTemporaries(options.home, isProcessAlive);
    const uid = process.getuid?.();
    const closing = new AbortController();
    const { prometheus } = options;
    const server = await openServer({
      daemon,
      answers,
      host: options.host,
      port: options.port,
      token: options.token,
      local: await localAccess(options, systemClock),
      users,
      auditHome: options.home,
      snapshotPage: snapshotPages([process.execPath, program], options.environment),
      submitterOf: submitters(uid, findAccount),
      readable: (identity, workload) => readableFor(identity, workload, uid),
      fleet: prometheus && fleetSource(openPrometheus(prometheus), systemClock, closing.signal),
      allowedHosts: options.allowedHosts,
      webFolder,
      version: options.version,
      clock: systemClock,
      log: (line) => options.log(line),
      logRequests: options.logRequests,
    });
    closers.push(() => server.close());
    closers.push(() => closing.abort());
    const { url, socket, pageLink } = server;
    return { url, socket, pageLink, daemon, notes: [...discovery.notes, ...notes], close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function daemonOf(
  { home, settings, policy, folder, environment: own, environmentChanges, log }: ServiceOptions,
  discovery: Discovery,
  answers: ReturnType<typeof serveAnswers>,
  users: UserStore,
): Promise<Daemon> {
  const environment = environmentForJobs(own);
  const command = [process.execPath, program];
  try {
    return await openDaemon({
      home,
      discovery,
      engine: localEngine({ home, command, environment, folder }),
      environment,
      environmentChanges,
      folder,
      variables: readJobVariables(own),
      loadLine: settings.loadLinePercent / 100,
      policy,
      quotaOf: quotasFrom(users),
      estimate: (...asked) => answers.estimate(...asked),
      estimatesAtOnce: estimatesAtOnce(await estimatingHost(discovery)),
      plan: (...asked) => answers.planWithin(...asked),
      estimateProgram: ({ folder: start = folder, variables, account, ...job }, ...rest) => {
        const given = account ? accountEnvironment(environment, account) : environment;
        return answers.program(
          { ...job, account, folder: start, environment: { ...given, ...variables } },
          ...rest,
        );
      },
      watch: {
        intervalSeconds: settings.intervalSeconds,
        processIntervalSeconds: settings.processIntervalSeconds,
        thresholds: settings.alerts,
        deliver: alertSinks(settings.deliver, folder),
      },
      gpus: settings.gpus,
      log,
    });
  } catch (error) {
    throw error instanceof Failure && error.code === 'store-in-use' ? inUse(home, error) : error;
  }
}

export function makeHome(home: string): void {
  try {
    makeFolder(home, 0o700);
  } catch (error) {
    throw new Failure({
      kind: 'missing',
      code: 'cannot-keep-state',
      fact: `The folder ${home} cannot be made: ${error instanceof Error ? error.message : String(error)}.`,
      next: 'Set PLIMSOLL_HOME to a folder that can be written.',
      cause: error,
    });
  }
}

/** Says who it is, where that is known. */
function inUse(home: string, cause: Failure): Failure {
  const note = readServerNote(home);
  if (note === undefined) return cause;
  return new Failure({
    kind: cause.kind,
    code: cause.code,
    fact: `Another "plimsoll serve" (process ${note.pid}, ${note.url}) has the home ${home}.`,
    next: 'Use that one, stop it, or set PLIMSOLL_HOME to another folder.',
    cause,
  });
}
