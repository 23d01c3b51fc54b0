import { existsSync } from 'node:fs';
import { join, resolve, resolve as resolvePath } from 'node:path';
import type { Command } from 'commander';
import { loadSettings } from '../../config/load.js';
import { type GpuSharing, gpuSharings } from '../../engine/kubernetes/pod-request.js';
import { estimate } from '../../estimate/estimate.js';
import { Failure } from '../../failure.js';
import { homeFolder } from '../../files/folders.js';
import { asProgramRuns } from '../../jobs/daemon/submission/submission.js';
import type { Daemon } from '../../jobs/daemon/types.js';
import { type PlacementPolicy, placementPolicies } from '../../jobs/placement.js';
import { prepareEstimate } from '../../plan/answers/answer-estimate.js';
import { fieldWording } from '../../plan/answers/wording.js';
import type { WorkloadRequest } from '../../plan/answers/workload-request.js';
import type { JobEnvironmentMode } from '../../plan/environment/job-environment.js';
import { bytesToReserve } from '../../plan/fit/fit.js';
import { goOnWords, serveText } from '../../report/text/serve-text.js';

import { checkPlatform } from '../../run/program.js';
import {
  makeHome,
  openService,
  type Service,
  webFolder,
} from '../../server/service/open-service.js';
import {
  removeServerNote,
  type ServerNote,
  usualSocket,
  writeServerNote,
} from '../../server/service/server-file.js';
import { openWebhook } from '../../server/webhook/open-webhook.js';
import { reviewEstimates } from '../../server/webhook/review-estimates.js';
import { systemClock } from '../../time/clock.js';
import { isKnown } from '../../units/known.js';
import { sleepFor } from '../client/follow-log.js';
import {
  type CliIo,
  type CommandContext,
  type CommandModule,
  printJson,
  textStyle,
} from '../io.js';
import {
  hostsArgument,
  intervalArgument,
  oneOfArgument,
  percentArgument,
  portArgument,
  socketArgument,
} from '../options/arguments.js';
import { checkedEnvironment, environmentModeArgument } from '../options/environment-mode.js';
import { checkVariables } from '../options/not-utf-8.js';
import { serveToken } from '../options/serve-token.js';
import {
  addPrometheusOptions,
  type PrometheusArguments,
  prometheusOf,
  settingsOf,
} from '../options/watch-options.js';
import { gpusHere, workloadMachine } from '../options/workload-options.js';
import { stopOnSignals, whenAborted } from '../stop.js';

interface ServeArguments extends PrometheusArguments, WebhookArguments {
  readonly host: string;
  readonly port?: number;
  readonly tokenFile?: string;
  /** False with `--no-token`. */
  readonly token?: boolean;
  readonly socket?: string;
  readonly localUsers?: boolean;
  readonly allowHost?: readonly string[];
  readonly envMode?: JobEnvironmentMode;
  readonly interval?: number;
  readonly loadLine?: number;
  readonly placement?: PlacementPolicy;
  readonly simulate?: string;
  readonly python?: string;
  readonly logRequests?: boolean;
  readonly config?: string;
  readonly json?: boolean;
}

const usualPort = 8000;
/** A dashboard wants no more; a machine that waits for jobs should not be kept busy. */
const usualPace = { intervalSeconds: 0.5, processIntervalSeconds: 2 };
/** Devices that have not said how large they are by then are shown as they are. */
const firstReadingMs = 2000;
const lookMs = 20;

export const serveCommand: CommandModule = {
  define(command, context) {
    addPrometheusOptions(command)
      .option('--host <address>', 'where to listen', '127.0.0.1')
      .option(
        '--port <n>',
        'where to listen (8000; with --webhook 8443); 0 is any free port',
        portArgument,
      )
      .option(
        '--token-file <file>',
        'the token that every client must send (PLIMSOLL_TOKEN, or one made in $PLIMSOLL_HOME/token)',
      )
      .option('--no-token', 'no token: every user of this machine can run commands as you')
      .option(
        '--socket <path>',
        'a local socket beside the port (server.sock in $PLIMSOLL_HOME)',
        socketArgument,
      )
      .option(
        '--local-users',
        `other accounts of this machine use it without a token; as root, at ${usualSocket}, and their jobs run as them`,
      )
      .option(
        '--allow-host <name>',
        'another host name of this server, for a proxy in front of it; may be repeated',
        hostsArgument,
      )
      .option(
        '--interval <seconds>',
        'seconds between samples (0.5)',
        intervalArgument('--interval'),
      )
      .option(
        '--line, --load-line <percent>',
        'percent of a device that jobs may reserve (90)',
        percentArgument('--line'),
      )
      .option(
        '--placement <policy>',
        'best-fit fills one GPU before the next, leaving large free blocks; balanced spreads jobs (best-fit)',
        oneOfArgument('--placement', placementPolicies),
      )
      .option(
        '--simulate <scenario>',
        'a simulated GPU: a scenario by name, or a recorded trace.json',
      )
      .option(
        '--env-mode <mode>',
        "production (default): jobs do not inherit debug settings of the server's environment; or keep",
        environmentModeArgument,
      )
      .option('--python <program>', 'the Python to estimate models with (the active one)')
      .option('--log-requests', 'a line on stderr for each request')
      .option('--config <file>', 'this configuration file instead of plimsoll.config.json')
      .option('--json', 'print one JSON document on stdout once it listens')
      .addHelpText('after', help)
      .action(
        context.action((given: ServeArguments) =>
          isWebhook(given) ? serveWebhook(given, context.io) : serve(given, context),
        ),
      );
    addWebhookOptions(command);
  },
};

const help = `
Jobs start as soon as their memory is free. Running jobs go on when the server is stopped or killed,
and it picks them up again when it restarts. It reads USE_GPU, GPU_DEVICE, MAX_CONCURRENT_JOBS,
JOB_TIMEOUT and SAFETY_MARGIN_MB. A submitted job runs a command as you, so every client must send a
token. The server creates one in $PLIMSOLL_HOME/token, which only you can read; your own commands find
it, and the printed link opens the dashboard. With --local-users other accounts of this machine need
no token: the kernel says who they are. Ctrl-C or SIGTERM stops the server with exit code 0.

With --webhook it is a mutating admission webhook for Kubernetes at /mutate, and nothing else: no jobs, no
dashboard, no token, no files. It writes the GPU memory that the annotation plimsoll.dev/estimate tells
into new pods, as "submit --engine kubernetes" writes it into jobs.

Examples:
  plimsoll serve
  plimsoll serve --host 0.0.0.0 --token-file /etc/plimsoll/token
  plimsoll serve --port 0 --json
  sudo plimsoll serve --local-users
  plimsoll serve --webhook --host 0.0.0.0 --tls-cert tls.crt --tls-key tls.key --gpu-sharing hami`;

async function serve(given: ServeArguments, context: CommandContext): Promise<number> {
  const { io } = context;
  checkPlatform('plimsoll serve');
  const { environment, folder } = io;
  // Its jobs get them.
  checkVariables(environment, () => true);
  const settings = await settingsOf(given, io, usualPace);
  const home = homeFolder(environment);
  makeHome(home);
  const none = given.token === false;
  const { localUsers } = given;
  if (none && localUsers) throw tokenlessUsers();
  const token = serveToken({ file: given.tokenFile, none, environment, folder, home });
  const {
    host,
    port = usualPort,
    allowHost: allowedHosts,
    placement: policy,
    python,
    logRequests,
  } = given;
  const job = checkedEnvironment(environment, given.envMode ?? 'production', { by: 'serve' });
  for (const line of job.lines) io.stderr.write(`plimsoll: ${line}\n`);
  using stop = stopOnSignals();
  const service = await openService({
    home,
    settings,
    host,
    port,
    token,
    socket: given.socket === undefined ? undefined : resolvePath(folder, given.socket),
    localUsers,
    allowedHosts,
    policy,
    prometheus: prometheusOf(given, io),
    python,
    logRequests,
    environment: job.environment,
    environmentChanges: job.changes,
    folder,
    version: context.version,
    log: (line) => io.stderr.write(`${line}\n`),
  });
  const { pid } = process;
  try {
    const notes = [
      ...service.notes,
      ...leaveNote(home, { url: service.url, pid, token }),
      ...accessNotes({ hasToken: token !== undefined, uid: process.getuid?.(), localUsers }),
    ];
    await firstReadings(service.daemon, stop.signal);
    printReady(service, { home, link: service.pageLink(), notes }, given, io);
    await whenAborted(stop.signal);
  } finally {
    removeServerNote(home, pid);
    const { running } = service.daemon.counts();
    await service.close();
    io.stderr.write(`plimsoll: closed. ${goOnWords(running)}\n`);
  }
  return 0;
}

/** Where that cannot be (a full disk), it serves all the same, and says so. */
function leaveNote(home: string, note: ServerNote): readonly string[] {
  try {
    writeServerNote(home, note);
    return [];
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return [`Give other commands --server ${note.url}: ${why}`];
  }
}

/** What it listens on and what it found, once for the person who started it. */
function printReady(
  { url, socket, daemon }: Service,
  {
    home,
    link,
    notes,
  }: { readonly home: string; readonly link: string; readonly notes: readonly string[] },
  { json }: ServeArguments,
  io: CliIo,
): void {
  const devices = daemon.devices();
  const counts = daemon.counts();
  if (json) {
    // On one line: who waits for it knows that it is whole while we go on.
    printJson(io, { url, link, socket, pid: process.pid, home, devices, counts, notes }, 0);
    return;
  }
  const hasPage = existsSync(join(webFolder, 'index.html'));
  const facts = { url, link, home, hasPage, devices, counts, notes };
  const options = { columns: io.stdout.columns(), style: textStyle(io) };
  io.stdout.write(`${serveText(facts, options)}\n`);
}

/** What the one who started it should know about who may use it. */
export function accessNotes({
  hasToken,
  uid,
  localUsers = false,
}: {
  readonly hasToken: boolean;
  readonly uid: number | undefined;
  readonly localUsers?: boolean | undefined;
}): readonly string[] {
  return [
    ...(hasToken ? [] : ['no token: every user of this machine can run commands as you']),
    ...(uid === 0 ? ['it runs as root, and so do the jobs of its owner'] : []),
    ...(localUsers && uid === 0
      ? ['every account of this machine can run jobs here, as itself']
      : []),
    ...(localUsers && uid !== 0
      ? ['accounts that were added with "plimsoll users add" can run commands as you']
      : []),
  ];
}

function tokenlessUsers(): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-option',
    fact: '--no-token and --local-users contradict each other: without a token every account is the owner.',
    next: 'Leave out --no-token.',
  });
}

async function firstReadings(daemon: Daemon, signal: AbortSignal): Promise<void> {
  for (let waited = 0; waited < firstReadingMs && !signal.aborted; waited += lookMs) {
    const devices = daemon.devices();
    if (devices.length > 0 && devices.every(({ totalBytes }) => isKnown(totalBytes))) return;
    await sleepFor(lookMs, signal);
  }
}

interface WebhookArguments {
  readonly webhook?: boolean;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly gpuSharing?: GpuSharing;
  readonly webhookStrict?: boolean;
}

/** What the rest of `serve` takes that means something here, too. */
const common: ReadonlySet<string> = new Set(['host', 'port', 'config', 'json', 'token', 'debug']);
const own: readonly (keyof WebhookArguments)[] = [
  'webhook',
  'tlsCert',
  'tlsKey',
  'gpuSharing',
  'webhookStrict',
];
/** Away from those of API servers and kubelets. */
const usualWebhookPort = 8443;
/** A model of the catalogue takes a second or two of a processor, and waits for others before that. */
const estimateMs = 120_000;

function addWebhookOptions(command: Command): Command {
  return command
    .option(
      '--webhook',
      'only answer the API server of Kubernetes: write GPU memory into pods annotated with plimsoll.dev/estimate',
    )
    .option('--tls-cert <file>', 'with --webhook: its certificate, PEM')
    .option('--tls-key <file>', 'with --webhook: the key of that certificate, PEM')
    .option(
      '--gpu-sharing <way>',
      'with --webhook: how GPUs are shared: hami, kai or none (none)',
      oneOfArgument('--gpu-sharing', gpuSharings),
    )
    .option(
      '--webhook-strict',
      'refuse annotated pods that cannot be understood (they pass unchanged, with a warning)',
    );
}

/** Whether a webhook was asked for; throws where an option would be ignored. */
function isWebhook(given: WebhookArguments & { readonly token?: boolean }): boolean {
  if (given.webhook === true) {
    const named = Object.keys(given).filter((name) => Reflect.get(given, name) !== undefined);
    const mine = new Set<string>([...own, ...common]);
    const foreign = given.token === false ? 'noToken' : named.find((name) => !mine.has(name));
    if (foreign !== undefined) throw contradiction(`--${dashed(foreign)}`, 'a server of jobs');
    return true;
  }
  const unused = own.find((name) => given[name] !== undefined);
  if (unused !== undefined) throw contradiction(`--${dashed(unused)}`, 'a webhook (--webhook)');
  return false;
}

/** `plimsoll serve --webhook --tls-cert tls.crt --tls-key tls.key`. */
async function serveWebhook(
  given: WebhookArguments & {
    readonly host: string;
    readonly port?: number;
    readonly config?: string;
    readonly json?: boolean;
  },
  io: CliIo,
): Promise<number> {
  const { tlsCert, tlsKey, gpuSharing: sharing = 'none', webhookStrict: strict = false } = given;
  if (tlsCert === undefined || tlsKey === undefined) throw noCertificate();
  const { folder, environment } = io;
  const settings = await loadSettings({ folder, environment, configPath: given.config });
  const gpus = await gpusHere(settings);
  const machine = {
    ...workloadMachine(settings, io, {}),
    gpusHere: () => Promise.resolve(gpus),
    wording: fieldWording,
  };
  const bytesFor = async (request: WorkloadRequest, ending: AbortSignal): Promise<number> => {
    const signal = AbortSignal.any([ending, AbortSignal.timeout(estimateMs)]);
    // What its settings would save is not asked for here, and takes longer than the estimate.
    const found = await estimate(await prepareEstimate(asProgramRuns(request), machine), {
      ...machine,
      signal,
    });
    return bytesToReserve(found, Number.MAX_SAFE_INTEGER);
  };
  const log = (line: string) => io.stderr.write(`plimsoll: ${line}\n`);
  using stop = stopOnSignals([io.stdout.closed]);
  const webhook = await openWebhook({
    host: given.host,
    port: given.port ?? usualWebhookPort,
    certFile: resolve(folder, tlsCert),
    keyFile: resolve(folder, tlsKey),
    rules: {
      sharing,
      strict,
      estimate: reviewEstimates(bytesFor, systemClock),
      fault: (error) => log(`A pod could not be answered: ${String(error)}`),
    },
    log,
  });
  try {
    const url = `${webhook.url}/mutate`;
    if (given.json) printJson(io, { url, pid: process.pid, sharing, strict }, 0);
    else io.stdout.write(`Webhook: ${url} (GPU sharing: ${sharing})\n`);
    await whenAborted(stop.signal);
  } finally {
    await webhook.close();
  }
  return 0;
}

function dashed(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

function contradiction(option: string, what: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-usage',
    fact: `${option} is for ${what}, which this is not.`,
    next: 'Leave it out; "plimsoll serve --help" lists what goes with --webhook.',
  });
}

function noCertificate(): Failure {
  return new Failure({
    kind: 'input',
    code: 'no-certificate',
    fact: 'API servers of Kubernetes call webhooks over TLS alone, and no certificate was named.',
    next: 'Add --tls-cert tls.crt --tls-key tls.key; docs/kubernetes.md says how to make them.',
  });
}
