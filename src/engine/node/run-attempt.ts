import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Failure } from '../../failure.js';
import { readOwnDocument } from '../../files/own-file.js';
import type { Attempt, RunReport } from '../../run/types.js';
import { MiB } from '../../units/bytes.js';
import { isKnown, type Known } from '../../units/known.js';
import {
  type JobFolder,
  type KeptAttempt,
  type KeptEnd,
  type KeptOrder,
  runningMs,
  type Task,
} from '../job-folder.js';

/** The limit of an attempt on each GPU, or on the host. */
interface AttemptLimit {
  /** `none` where a whole GPU is its own. */
  readonly limitBytes: number | 'none';
  /** The part of the CUDA context. */
  readonly contextBytes: number;
  readonly isOfHost: boolean;
}

/** The parts of its node that a job may use, on any cluster. */
export interface NodeEdges {
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** How many GPUs the driver of this node shows. */
  readonly gpusHere: () => Promise<number>;
  /** Keeps what a run measured, and answers what the next one needs. */
  readonly learn: (order: KeptOrder, attempts: readonly Attempt[]) => Known<number>;
  readonly notify: (line: string) => void;
}

/** One attempt of a job on its node. */
interface AttemptOnNode<Order extends KeptOrder, Try extends KeptAttempt, End extends KeptEnd>
  extends NodeEdges {
  readonly folder: JobFolder<Order, Try, End>;
  readonly order: Order;
  readonly task: Task;
  readonly number: number;
  readonly clusterId: string;
  readonly restart: number;
  readonly node: string;
  readonly limit: AttemptLimit;
  /** Of an earlier start that ended the program: nothing is run where there is one. */
  readonly report?: string | undefined;
  /** Whether the cluster still has the job as running; asked where a signal killed the program. */
  readonly isOurs?: () => Promise<boolean>;
  /** With what the engine adds. */
  readonly endWith: (end: KeptEnd) => End;
  /** Submits the attempt of this number with so much memory; answers what to say about it. */
  readonly submitNext: (number: number, bytes: Known<number>) => Promise<string>;
}

/** As a shell says that a program was killed. */
const killed = 137;
/** A report has some MiB at most. */
const maxReportBytes = 64 * MiB;
/** Growth of the next request if the last one of the program is unknown. */
const growth = 2;

/**
 * Runs one attempt of a job under its supervisor. Where it ran out of memory for good, the next one
 * is submitted. Answers the exit code of the program.
 */
export async function runAttempt<
  Order extends KeptOrder,
  Try extends KeptAttempt,
  End extends KeptEnd,
>(parts: AttemptOnNode<Order, Try, End>): Promise<number> {
  const { folder, order, task, number, clusterId, restart, environment } = parts;
  folder.markRunning(clusterId, restart);
  const running = setInterval(() => folder.markRunning(clusterId, restart), runningMs);
  const report = parts.report ?? folder.reportFile(clusterId, restart);
  const home = homeOfAttempt(parts);
  const signals = heedSignals();
  try {
    const limitBytes = await limitOf(parts.limit, parts.gpusHere);
    const refused = await superviseRun({ order, limitBytes, report, home, environment, signals });
    const ended = readReport(report);
    // The cluster ended it, and may start it again: how it stands is the cluster's to say.
    if (signals.wasAsked || ended?.outcome === 'interrupted') return 143;
    if (ended === undefined) {
      folder.writeEnd(task, number, parts.endWith(notStarted(refused, parts.node)));
      return refused;
    }
    const last = ended.attempts.at(-1);
    const bytes = parts.learn(order, ended.attempts);
    const ranOut = ended.outcome === 'failed' && last !== undefined && last.outOfMemory !== null;
    const wasKilled = ended.outcome === 'failed' && !ranOut && ended.exitCode === killed;
    // The cluster gave the job up: how it stands is the cluster's to say.
    if (wasKilled && (await parts.isOurs?.()) === false) return killed;
    const askedBytes = last?.outOfMemory?.askedBytes ?? 'unknown';
    if (ranOut) await askForMore(parts, largerThan(parts.limit, bytes, askedBytes));
    const end = parts.endWith({
      schema: 1,
      outcome: ended.outcome,
      exitCode: ended.exitCode,
      outOfMemory: ranOut,
      peakBytes: peakOf(ended.attempts),
      node: parts.node,
      endedAt: ended.endedAt,
    });
    folder.writeEnd(task, number, end);
    return isKnown(ended.exitCode) ? ended.exitCode : 1;
  } finally {
    signals.release();
    clearInterval(running);
    folder.markEnded(clusterId, restart);
    rmSync(home, { recursive: true, force: true });
  }
}

/** The home of an attempt's run on its node; removed when the attempt is over. */
export function homeOfAttempt<
  Order extends KeptOrder,
  Try extends KeptAttempt,
  End extends KeptEnd,
>({
  folder,
  clusterId,
  restart,
  environment,
}: Pick<
  AttemptOnNode<Order, Try, End>,
  'folder' | 'clusterId' | 'restart' | 'environment'
>): string {
  // With our own name of the job: a cluster that lost its state gives numbers again.
  return localHome(environment, `${folder.key}-${clusterId}.${restart}`);
}

function notStarted(exitCode: number, node: string): KeptEnd {
  return {
    schema: 1,
    outcome: 'failed',
    exitCode,
    outOfMemory: false,
    peakBytes: 'unknown',
    node,
    endedAt: new Date().toISOString(),
  };
}

async function limitOf(
  { limitBytes, contextBytes, isOfHost }: AttemptLimit,
  gpusHere: () => Promise<number>,
): Promise<number | 'none'> {
  if (limitBytes === 'none' || isOfHost) return limitBytes;
  // Of a GPU the context takes its part before PyTorch has anything.
  return (await gpusHere()) > 0 ? Math.max(1, limitBytes - contextBytes) : limitBytes;
}

async function askForMore<Order extends KeptOrder, Try extends KeptAttempt, End extends KeptEnd>(
  parts: AttemptOnNode<Order, Try, End>,
  bytes: Known<number>,
): Promise<void> {
  const { folder, order, number, notify } = parts;
  if (folder.isCancelled) return;
  if (number + 1 > order.maxAttempts) {
    notify(`plimsoll: out of memory in attempt ${number}, and that was the last one.`);
    return;
  }
  try {
    const said = await parts.submitNext(number + 1, bytes);
    notify(`plimsoll: out of memory. ${said} (attempt ${number + 1} of ${order.maxAttempts}).`);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    notify(`plimsoll: ${error.code}: not submitted again. ${error.message}`);
  }
}

/** More than the attempt before, whatever was measured. */
function largerThan(
  { limitBytes }: AttemptLimit,
  bytes: Known<number>,
  askedBytes: Known<number>,
): Known<number> {
  if (limitBytes === 'none') return bytes;
  const least = isKnown(askedBytes) ? limitBytes + askedBytes : limitBytes * growth;
  return Math.max(isKnown(bytes) ? bytes : 0, least);
}

function peakOf(attempts: readonly Attempt[]): Known<number> {
  const peaks = attempts.map(({ peakBytes }) => peakBytes).filter(isKnown);
  return peaks.length === 0 ? 'unknown' : Math.max(...peaks);
}

export function readReport(path: string): RunReport | undefined {
  const report = readOwnDocument(path, { schema: 1, maxBytes: maxReportBytes });
  return report !== undefined && isReport(report) ? report : undefined;
}

function isReport(
  report: Readonly<Record<string, unknown>>,
): report is Readonly<Record<string, unknown>> & RunReport {
  return typeof report['outcome'] === 'string' && Array.isArray(report['attempts']);
}

/** After so many ends of our command that it did not announce, something else is wrong. */
const maxTries = 20;

/** Not 1, with which Slurm says that a node refused to start a job. */
const gaveUp = 70;

/**
 * Lines of a shell script that start our command on a node; where that is killed, they start it
 * again, and the program that still runs is taken up.
 */
export function startedAgain(command: string, endedFile: string): string {
  return `tries=0
while [ $tries -lt ${maxTries} ]; do
  ${command}
  code=$?
  # It writes this file when it is done; without it, it was killed and is started again.
  if [ -e ${endedFile} ]; then exit $code; fi
  tries=$((tries + 1))
done
exit ${gaveUp}
`;
}

/** Arguments of `plimsoll run` on a node. */
interface SupervisedRun {
  readonly order: KeptOrder;
  /** Without the CUDA context. */
  readonly limitBytes: number | 'none';
  readonly report: string;
  readonly home: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly signals: Signals;
}
/** All processes of a run on a node have the folder of the run in this variable. */
export const nodeRunVariable = 'PLIMSOLL_NODE_RUN';
/** As a shell says that a program was killed. */
const supervisorKilled = 137;

/**
 * Until there is a report: a supervisor that was killed is followed by another one. Answers the exit
 * code of the last one.
 */
export async function superviseRun(run: SupervisedRun): Promise<number> {
  const { order, limitBytes, report, home, environment, signals } = run;
  const state = ['--state', home];
  const options = [
    '--report',
    report,
    '--report',
    report.replace(/json$/, 'html'),
    ...(limitBytes === 'none' ? [] : ['--allocator-memory', String(limitBytes)]),
    ...(order.environmentChanges === undefined
      ? []
      : ['--env-changes', JSON.stringify(order.environmentChanges)]),
    ...(isKnown(order.batch) ? ['--batch-size', String(order.batch)] : []),
  ];
  for (let tries = 0; tries < maxTries && !existsSync(report); tries++) {
    const begun = existsSync(join(home, 'runs')) && readdirSync(join(home, 'runs')).length > 0;
    const words = begun
      ? ['run', '--attach', ...state]
      : ['run', ...options, ...state, '--', ...order.command];
    const [program = '', ...args] = [...order.plimsoll, ...words];
    // The folder of the run is removed with it: what the program asks to be kept goes where the person keeps it.
    const kept = dirname(order.measured);
    const env = { ...environment, PLIMSOLL_HOME: kept, [nodeRunVariable]: home };
    const child = spawn(program, args, { stdio: 'inherit', env, cwd: order.cwd });
    const code = await endOf(child, signals);
    // An exit code of its own without a report: it refused to start, and would again.
    if (code !== undefined) return code;
  }
  return supervisorKilled;
}

/** Its exit code; undefined where a signal ended it. */
function endOf(child: ChildProcess, signals: Signals): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    signals.forwardTo(child);
    child.once('error', reject);
    child.once('exit', (code) => resolve(code ?? undefined));
  });
}

/** Journals and sockets of the run lie on the node itself: a shared file system may have no sockets. */
function localHome(
  environment: Readonly<Record<string, string | undefined>>,
  name: string,
): string {
  const uid = process.getuid?.() ?? 0;
  const path = join(environment['TMPDIR'] || tmpdir(), `plimsoll-${uid}-${name}`);
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if (!existsSync(path) || statSync(path).uid !== uid) throw error;
  }
  return path;
}

/** Requests to end that reach this process. */
interface Signals {
  readonly wasAsked: boolean;
  forwardTo(child: ChildProcess): void;
  release(): void;
}

/** A cluster signals all processes of a job; ours waits for its supervisor to end the program. */
export function heedSignals(): Signals {
  let wasAsked = false;
  let current: ChildProcess | undefined;
  const heed = () => {
    wasAsked = true;
    current?.kill('SIGTERM');
  };
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, heed);
  return {
    get wasAsked() {
      return wasAsked;
    },
    forwardTo(child) {
      current = child;
      if (wasAsked) child.kill('SIGTERM');
    },
    release() {
      for (const signal of ['SIGTERM', 'SIGINT'] as const) process.off(signal, heed);
    },
  };
}
