import { execFile, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { alertSinks, openDevices, type Settings } from '../../config/settings.js';
import type { Discovery } from '../../device/discover.js';
import { machineRoots } from '../../device/kernel-files.js';
import { localEngine } from '../../engine/local/local-engine.js';
import { readAllocation, withinAllocation } from '../../engine/slurm/allocation.js';
import { openEstimateWork } from '../../estimate/thread/estimate-threads.js';
import { Failure } from '../../failure.js';
import { makeFolder, packageFolder } from '../../files/folders.js';
import { askFleet } from '../../fleet/ask-fleet.js';
import type { Fleet } from '../../fleet/document.js';
import { openPrometheus, type Prometheus, type PrometheusAddress } from '../../fleet/prometheus.js';
import { estimatesAtOnce, estimatingHost } from '../../jobs/daemon/estimates/estimates-at-once.js';
import { openDaemon } from '../../jobs/daemon/open-daemon.js';
import { environmentForJobs } from '../../jobs/daemon/running/job-files.js';
import type { Daemon } from '../../jobs/daemon/types.js';
import { readJobVariables } from '../../jobs/job-variables.js';
import type { PlacementPolicy } from '../../jobs/placement.js';
import type { QuotaOf } from '../../jobs/quota.js';
import { ownerName } from '../../jobs/types.js';
import type { EnvironmentChange } from '../../plan/environment/job-environment.js';
import { accountEnvironment } from '../../run/launch/become-order.js';
import type { Account } from '../../run/types.js';
import { type Clock, systemClock } from '../../time/clock.js';
import { checkArguments, fileName, number, object, string } from '../../units/arguments.js';
import { quotaOf } from '../access/people.js';
import { readableFor, submitters } from '../access/submitter.js';
import { openUserStore, type UserStore } from '../access/users/user-store.js';
import { tooManyAnswers } from '../errors/refusals.js';
import { openPeerReader } from '../local/peer-credentials.js';
import { type LocalAccess, openServer } from '../open-server.js';
import type { FleetSource } from '../routes/fleet-routes.js';
import type { SnapshotPage } from '../routes/report-routes.js';
import { serveAnswers } from './serve-answers.js';
import { readServerNote, usualSocket } from './server-file.js';

export interface ServiceOptions {
  readonly home: string;
  readonly settings: Settings;
  readonly host: string;
  readonly port: number;
  readonly token?: string | undefined;
  /** Its socket on this machine beside the port. */
  readonly socket?: string | undefined;
  /** Other accounts of this machine may use it without a token. */
  readonly localUsers?: boolean | undefined;
  readonly allowedHosts?: readonly string[] | undefined;
  readonly policy?: PlacementPolicy | undefined;
  /** The Prometheus of the fleet; without it there is none. */
  readonly prometheus?: PrometheusAddress | undefined;
  readonly python?: string | undefined;
  readonly logRequests?: boolean | undefined;
  readonly version: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Earlier changes of it. */
  readonly environmentChanges?: readonly EnvironmentChange[];
  /** The folder of jobs that name none. */
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
  /** Facts about this machine that could not be read. */
  readonly notes: readonly string[];
  /** Jobs go on. */
  close(): Promise<void>;
}

// The sources and the build lie equally deep below the package.
const plimsollProgram = join(packageFolder, 'bin/plimsoll.js');
export const webFolder = join(packageFolder, 'dist/web');

const serviceRules = {
  home: fileName,
  settings: object,
  host: string,
  port: number,
  environment: object,
};

/** Opens all of it, or nothing. */
export async function openService(options: ServiceOptions): Promise<Service> {
  checkArguments('openService', { ...Object(options) }, serviceRules);
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
    const daemon = await daemonOf(options, log, discovery, answers, users);
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
      snapshotPage: snapshotPages([process.execPath, plimsollProgram], options.environment),
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
  { home, settings, policy, folder, environment: own, environmentChanges }: ServiceOptions,
  log: (line: string) => void,
  discovery: Discovery,
  answers: ReturnType<typeof serveAnswers>,
  users: UserStore,
): Promise<Daemon> {
  const environment = environmentForJobs(own);
  const command = [process.execPath, plimsollProgram];
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
      estimate: (request, signal, withLimit) =>
        answers.estimate(request, signal, 'request', withLimit),
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
  checkArguments('makeHome', { home }, { home: fileName });
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

/** Temporary files that servers rename into place: the name, and the process that wrote it. */
const temporary =
  /^(?:(?:token|server\.json)\.(\d+)\.tmp|jobs\.db\.new-(\d+)(?:-journal|-wal|-shm)?)$/;

/**
 * Removes files that servers left half-written when they were killed. Another server may be starting
 * in the same home: what belongs to a living process stays.
 */
export function removeStaleTemporaries(home: string, isAlive: (pid: number) => boolean): void {
  for (const name of readdirSync(home)) {
    const [, ofFile, ofStore] = temporary.exec(name) ?? [];
    const pid = ofFile ?? ofStore;
    if (pid !== undefined && !isAlive(Number(pid))) rmSync(join(home, name), { force: true });
  }
}

/** A process of another user counts as alive. */
function isProcessAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

interface LocalAccessOptions {
  readonly home: string;
  /** The socket that it was asked to listen on. */
  readonly socket?: string | undefined;
  /** Whether accounts other than that of the server may use it. */
  readonly localUsers?: boolean | undefined;
}

/**
 * The local socket of a server: in its home, for its owner alone, unless something else was asked
 * for. Undefined where this machine does not tell who connects.
 */
export async function localAccess(
  { home, socket, localUsers = false }: LocalAccessOptions,
  clock: Clock,
  uid: number | undefined = process.getuid?.(),
): Promise<LocalAccess | undefined> {
  if (localUsers && socket === undefined && uid !== 0) throw socketNeeded();
  const isOptional = !localUsers && socket === undefined;
  try {
    const unknown = overflowUid(machineRoots.proc);
    return {
      path: socket ?? (localUsers ? usualSocket : join(home, 'server.sock')),
      forAll: localUsers,
      isOptional,
      readPeer: await openPeerReader(),
      serverUid: uid,
      nameOf: accountNames(() => clock.seconds()),
      isUnknown: (one) => one === unknown,
    };
  } catch (error) {
    if (isOptional) return undefined;
    throw notHere(error);
  }
}

function socketNeeded(): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-option',
    fact: '--local-users needs --socket, because other accounts cannot reach a socket in your home.',
    next: 'Name a path in a folder that others can enter and only you can write to: --local-users --socket /srv/plimsoll/server.sock',
  });
}

function notHere(cause: unknown): Failure {
  return new Failure({
    kind: 'missing',
    code: 'no-local-socket',
    fact: `This machine does not tell which account connects to a socket: ${cause instanceof Error ? cause.message : String(cause)}.`,
    next: 'Leave out --socket and --local-users, and give people tokens: plimsoll users add NAME',
    cause,
  });
}

/** Names of accounts change so seldom that a minute's delay is no harm. */
const keptSeconds = 60;
/** More accounts than come within a minute. */
const maxKept = 10_000;

type NameOf = (uid: number) => Promise<string | undefined>;

/** The names of accounts, each asked of the machine at most once a minute. */
function accountNames(seconds: () => number, ask: NameOf = askMachine): NameOf {
  const kept = new Map<number, { readonly until: number; readonly name: ReturnType<NameOf> }>();
  return (uid) => {
    const now = seconds();
    const before = kept.get(uid);
    if (before !== undefined && before.until > now) return before.name;
    if (kept.size >= maxKept) kept.clear();
    const name = ask(uid);
    kept.set(uid, { until: now + keptSeconds, name });
    // One that was not found may be added in the next moment.
    void name.then((found) => found === undefined && kept.delete(uid));
    return name;
  };
}

async function askMachine(uid: number): Promise<string | undefined> {
  const account = await findAccount(String(uid));
  return account?.uid === uid ? account.name : undefined;
}

/**
 * The uid that the kernel shows a server in a user namespace for every account outside of it: they
 * cannot be told apart. Undefined outside of such a namespace.
 */
function overflowUid(procRoot: string): number | undefined {
  try {
    const map = readFileSync(`${procRoot}/self/uid_map`, 'utf8').trim().split(/\s+/);
    if (map.join(' ') === '0 0 4294967295') return undefined;
    return Number(readFileSync(`${procRoot}/sys/kernel/overflowuid`, 'utf8'));
  } catch {
    // No Linux.
    return undefined;
  }
}

/** A directory service that does not answer is not waited for. */
const timeoutMs = 5000;

/**
 * The Unix account of a name or a uid, as the machine knows it; undefined where there is none.
 *
 * @example
 * await findAccount('ada'); // { uid: 1000, gid: 1000, name: 'ada', home: ..., shell: '/bin/bash' }
 */
function findAccount(nameOrUid: string): Promise<Account | undefined> {
  return new Promise((resolve) => {
    execFile('getent', ['passwd', nameOrUid], { timeout: timeoutMs }, (error, stdout) => {
      resolve(error === null ? accountOf(stdout.split('\n', 1)[0] ?? '') : undefined);
    });
  });
}

/** `name:password:uid:gid:comment:home:shell`. */
function accountOf(line: string): Account | undefined {
  const [name = '', , uid = '', gid = '', , home = '', shell = ''] = line.split(':');
  if (name === '' || !/^\d+$/.test(uid) || !/^\d+$/.test(gid)) return undefined;
  return { uid: Number(uid), gid: Number(gid), name, home, shell: shell || '/bin/sh' };
}

/** Each takes memory of its own: several times that of the file. */
const atOnce = 2;
/** The page of a snapshot of 500 MB has some 40 MB. */
const maxPageBytes = 256 * 1024 * 1024;
/** Ends only what hangs. */
const pageTimeoutMs = 600_000;

/**
 * Makes pages of snapshots in a process of their own: one that is large or odd takes neither the
 * server's time nor its memory.
 */
export function snapshotPages(
  command: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): SnapshotPage {
  let making = 0;
  return async (file, signal) => {
    if (!existsSync(file)) throw gone(file);
    if (making >= atOnce) throw tooManyAnswers();
    making += 1;
    const folder = mkdtempSync(join(tmpdir(), 'plimsoll-snapshot-'));
    const page = join(folder, 'page.html');
    try {
      await run([...command, 'snapshot', '--html', page, '--', file], environment, signal);
      if (!existsSync(page) || statSync(page).size > maxPageBytes) throw unreadable(file);
      return Uint8Array.from(readFileSync(page));
    } finally {
      making -= 1;
      rmSync(folder, { recursive: true, force: true });
    }
  };
}

/** Resolves whatever its exit code is: what counts is the page. */
function run(
  [program = '', ...rest]: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
  signal: AbortSignal,
): Promise<void> {
  return new Promise((resolve) => {
    const child = spawn(program, rest, {
      env: { ...environment },
      stdio: 'ignore',
      signal,
      timeout: pageTimeoutMs,
      killSignal: 'SIGKILL',
    });
    child.once('error', () => resolve());
    child.once('close', () => resolve());
  });
}

function gone(file: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'snapshot-gone',
    fact: `The snapshot ${file} is no longer there.`,
    next: 'Snapshots of older runs are removed; run the job again to get a new one.',
  });
}

function unreadable(file: string): Failure {
  return new Failure({
    kind: 'job',
    code: 'unreadable-snapshot',
    fact: `No page could be made of the snapshot ${file}.`,
    next: `Run "plimsoll snapshot ${file}" on the machine of the server to see why.`,
  });
}

/** Shorter than a usual scrape interval: a newer answer would be the same. */
const freshSeconds = 10;
const windowSeconds = 3600;

/** One question at a time, however many pages are open; its answer is for all of them, for some seconds. */
export function fleetSource(
  prometheus: Prometheus,
  clock: Clock,
  signal: AbortSignal,
): FleetSource {
  let askedAt = -Infinity;
  let answer: Promise<Fleet> | undefined;
  const ask = async (): Promise<Fleet> => {
    const fleet = await askFleet(prometheus, { nowMs: clock.epochMs(), windowSeconds, signal });
    askedAt = clock.seconds();
    return fleet;
  };
  return () => {
    if (answer !== undefined && clock.seconds() - askedAt < freshSeconds) return answer;
    askedAt = clock.seconds();
    answer = ask().catch((error: unknown) => {
      // The next one asks anew.
      answer = undefined;
      throw error;
    });
    return answer;
  };
}

/**
 * The quotas of users, as they are now. Where the users cannot be read, jobs of users wait: what
 * they may have is unknown. Those of the owner go on.
 */
function quotasFrom(users: Pick<UserStore, 'byName'>): QuotaOf {
  return (name) => {
    if (name === ownerName) return undefined;
    try {
      const user = users.byName(name);
      return user && quotaOf(user);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      return { maxJobs: 0 };
    }
  };
}
