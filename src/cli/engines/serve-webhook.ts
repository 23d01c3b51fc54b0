import { resolve } from 'node:path';
import type { Command } from 'commander';
import { loadSettings } from '../../config/load.js';
import { type GpuSharing, gpuSharings } from '../../engine/kubernetes/pod-request.js';
import { Failure } from '../../failure.js';
import { answerEstimate } from '../../plan/answers/answer-estimate.js';
import { fieldWording } from '../../plan/answers/wording.js';
import type { WorkloadRequest } from '../../plan/answers/workload-request.js';
import { bytesToReserve } from '../../plan/fit/fit.js';
import { openWebhook } from '../../server/webhook/open-webhook.js';
import { type CliIo, printJson } from '../io.js';
import { oneOfArgument } from '../options/arguments.js';
import { workloadMachine } from '../options/workload-machine.js';
import { stopOnSignals, whenAborted } from '../stop.js';

export interface WebhookArguments {
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
const usualPort = 8443;
/** The API server waits for 10 s (`timeoutSeconds`) as the manifest of ours says. */
const estimateMs = 5000;

/** Each is a short text and a number. */
const rememberedEstimates = 1000;

export function addWebhookOptions(command: Command): Command {
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
export function isWebhook(given: WebhookArguments & { readonly token?: boolean }): boolean {
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
export async function serveWebhook(
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
  const machine = { ...workloadMachine(settings, io, {}), wording: fieldWording };
  const estimate = remembering(async (request) => {
    const signal = AbortSignal.timeout(estimateMs);
    const found = await answerEstimate(request, { ...machine, signal });
    return bytesToReserve(found, Number.MAX_SAFE_INTEGER);
  });
  const log = (line: string) => io.stderr.write(`plimsoll: ${line}\n`);
  using stop = stopOnSignals([io.stdout.closed]);
  const webhook = await openWebhook({
    host: given.host,
    port: given.port ?? usualPort,
    certFile: resolve(folder, tlsCert),
    keyFile: resolve(folder, tlsKey),
    rules: {
      sharing,
      strict,
      estimate,
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

/** Pods of one kind ask the same, many at a time: an estimate takes 0.2 s of processor time. */
function remembering(
  make: (request: WorkloadRequest) => Promise<number>,
): (request: WorkloadRequest) => Promise<number> {
  const known = new Map<string, number>();
  return async (request) => {
    const key = JSON.stringify(request);
    const bytes = known.get(key) ?? (await make(request));
    if (known.size >= rememberedEstimates) known.clear();
    known.set(key, bytes);
    return bytes;
  };
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
