import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { Failure } from '../../failure.js';
import { readOwnDocument } from '../../files/own-file.js';
import type { Attempt, RunReport } from '../../run/types.js';
import { MiB } from '../../units/bytes.js';
import { isKnown, type Known } from '../../units/known.js';
import { withoutArray } from './array-tasks.js';
import type { SlurmCommand } from './commands.js';
import {
  runningMs,
  type SlurmAttempt,
  type SlurmEnd,
  type SlurmJobFolder,
  type SlurmOrder,
  type Task,
} from './job-folder.js';
import type { SlurmCluster } from './open-cluster.js';
import { slurmRequest } from './request.js';
import { submitAttempt } from './submit-attempt.js';

/** What the node's side of a job may touch. */
export interface NodeParts {
  readonly folder: SlurmJobFolder;
  readonly number: number;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly run: SlurmCommand;
  readonly cluster: () => Promise<SlurmCluster>;
  /** How many GPUs the driver of this node shows. */
  readonly gpusHere: () => Promise<number>;
  /** Keeps what a run measured, and answers what the next one needs. */
  readonly learn: (order: SlurmOrder, attempts: readonly Attempt[]) => Known<number>;
  readonly notify: (line: string) => void;
}

/** A report has some MiB at most. */
const maxReportBytes = 64 * MiB;
/** What is tried where nobody knows what the program asked for last. */
const growth = 2;
/** After so many ends without a report the supervisor cannot work here. */
const maxTries = 20;
/** As a shell says that a program was killed. */
const supervisorKilled = 137;

/**
 * Runs one attempt of a job under its supervisor, in an allocation of Slurm. Where it ran out of
 * memory for good, its successor is submitted, which begins when this job has ended. Answers the exit
 * code of the program.
 */
export async function runOnNode(parts: NodeParts): Promise<number> {
  const { folder, environment, number } = parts;
  const slurmId = environment['SLURM_JOB_ID'] ?? '';
  const restart = Number(environment['SLURM_RESTART_COUNT'] ?? 0);
  const index = environment['SLURM_ARRAY_TASK_ID'];
  const task: Task = index === undefined ? 'all' : Number(index);
  const order = folder.order();
  const attempt = folder.attempt(number === 1 ? 'all' : task, number);
  if (order === undefined || attempt === undefined || slurmId === '') throw notOurs(folder.path);
  folder.markRunning(slurmId, restart);
  const running = setInterval(() => folder.markRunning(slurmId, restart), runningMs);
  const report = folder.reportFile(slurmId, restart);
  // With our own name of the job: a controller that lost its state gives numbers again.
  const home = localHome(environment, `${folder.key}-${slurmId}.${restart}`);
  const signals = heedSignals();
  try {
    const refused = await supervise({ ...parts, order, attempt, report, home, signals });
    const ended = readReport(report);
    const node = environment['SLURMD_NODENAME'] ?? hostname();
    // Slurm ended it, and may start it again: how it stands is Slurm's to say.
    if (signals.wasAsked || ended?.outcome === 'interrupted') return 143;
    if (ended === undefined) {
      folder.writeEnd(task, number, notStarted(refused, node));
      return refused;
    }
    const last = ended.attempts.at(-1);
    const bytes = parts.learn(order, ended.attempts);
    const ranOut = ended.outcome === 'failed' && last !== undefined && last.outOfMemory !== null;
    const askedBytes = last?.outOfMemory?.askedBytes ?? 'unknown';
    if (ranOut)
      await submitSuccessor({ ...parts, order, attempt, task, slurmId, bytes, askedBytes });
    folder.writeEnd(task, number, {
      schema: 1,
      outcome: ended.outcome,
      exitCode: ended.exitCode,
      outOfMemory: ranOut,
      peakBytes: peakOf(ended.attempts),
      node,
      endedAt: ended.endedAt,
      slurmState: '',
    });
    return isKnown(ended.exitCode) ? ended.exitCode : 1;
  } finally {
    signals.release();
    clearInterval(running);
    folder.markEnded(slurmId, restart);
    rmSync(home, { recursive: true, force: true });
  }
}

interface Supervised extends NodeParts {
  readonly order: SlurmOrder;
  readonly attempt: SlurmAttempt;
  readonly report: string;
  readonly home: string;
  readonly signals: Signals;
}

/**
 * Until there is a report: a supervisor that was killed is followed by another one. Answers the exit
 * code of the last one.
 */
async function supervise(parts: Supervised): Promise<number> {
  const { order, attempt, report, home, environment, signals } = parts;
  const limit = await limitOf(attempt, parts.gpusHere);
  const options = [
    '--report',
    report,
    '--report',
    report.replace(/json$/, 'html'),
    ...(limit === 'none' ? [] : ['--memory', String(limit)]),
    ...(isKnown(order.batch) ? ['--batch-size', String(order.batch)] : []),
  ];
  for (let tries = 0; tries < maxTries && !existsSync(report); tries++) {
    const begun = existsSync(join(home, 'runs')) && readdirSync(join(home, 'runs')).length > 0;
    const words = begun ? ['run', '--attach'] : ['run', ...options, '--', ...order.command];
    const [program = '', ...args] = [...order.plimsoll, ...words];
    const env = { ...environment, PLIMSOLL_HOME: home };
    const child = spawn(program, args, { stdio: 'inherit', env, cwd: order.cwd });
    const code = await endOf(child, signals);
    // An exit code of its own without a report: it refused to start, and would again.
    if (code !== undefined) return code;
  }
  return supervisorKilled;
}

function notStarted(exitCode: number, node: string): SlurmEnd {
  return {
    schema: 1,
    outcome: 'failed',
    exitCode,
    outOfMemory: false,
    peakBytes: 'unknown',
    node,
    endedAt: new Date().toISOString(),
    slurmState: '',
  };
}

async function limitOf(
  { request }: SlurmAttempt,
  gpusHere: () => Promise<number>,
): Promise<number | 'none'> {
  const { limitBytes, contextBytes, gres } = request;
  if (limitBytes === 'none' || gres === 'none') return limitBytes;
  // Of a GPU the context takes its part before PyTorch has anything.
  return (await gpusHere()) > 0 ? Math.max(1, limitBytes - contextBytes) : limitBytes;
}

/** Its exit code; undefined where a signal ended it. */
function endOf(child: ChildProcess, signals: Signals): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    signals.forwardTo(child);
    child.once('error', reject);
    child.once('exit', (code) => resolve(code ?? undefined));
  });
}

interface Signals {
  readonly wasAsked: boolean;
  forwardTo(child: ChildProcess): void;
  release(): void;
}

/** Slurm signals all processes of a job; ours waits for its supervisor to end the program. */
function heedSignals(): Signals {
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

interface Successor extends NodeParts {
  readonly order: SlurmOrder;
  readonly attempt: SlurmAttempt;
  readonly task: Task;
  readonly slurmId: string;
  /** What all runs of the workload together say. */
  readonly bytes: Known<number>;
  /** What the program asked for when memory ran out. */
  readonly askedBytes: Known<number>;
}

async function submitSuccessor(parts: Successor): Promise<void> {
  const { folder, order, attempt, task, slurmId, run, notify } = parts;
  const number = attempt.number + 1;
  if (folder.isCancelled) return;
  if (number > order.maxAttempts) {
    notify(`plimsoll: out of memory in attempt ${attempt.number}, and that was the last one.`);
    return;
  }
  try {
    const cluster = await parts.cluster();
    const bytes = largerThan(attempt, parts);
    const need = { bytes, gpus: order.gpus };
    const request = slurmRequest(need, cluster.offers, cluster.defaultPartitions);
    const next: SlurmAttempt = { schema: 1, number, request, slurmId: 'unknown' };
    // Another start of this job may have decided already; its decision stands.
    folder.claimAttempt(task, next);
    const decided = folder.attempt(task, number) ?? next;
    const options = [
      // Never two at the same time.
      `--dependency=afterany:${slurmId}`,
      ...(task === 'all' ? [] : [`--array=${task}`]),
    ];
    const own = { ...order, sbatchOptions: withoutArray(order.sbatchOptions) };
    const submitted = await submitAttempt(
      { folder, order: own, task, attempt: decided, options },
      run,
    );
    if (folder.isCancelled && isKnown(submitted.slurmId)) await run('scancel', [submitted.slurmId]);
    notify(
      `plimsoll: out of memory. Submitted again as job ${submitted.slurmId} with ${decided.request.why} (attempt ${number} of ${order.maxAttempts}).`,
    );
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    notify(`plimsoll: ${error.code}: not submitted again. ${error.message}`);
  }
}

/** More than the attempt before, whatever was measured. */
function largerThan(
  { request }: SlurmAttempt,
  { bytes, askedBytes }: Pick<Successor, 'bytes' | 'askedBytes'>,
): Known<number> {
  const { limitBytes } = request;
  if (limitBytes === 'none') return bytes;
  const least = isKnown(askedBytes) ? limitBytes + askedBytes : limitBytes * growth;
  return Math.max(isKnown(bytes) ? bytes : 0, least);
}

function peakOf(attempts: readonly Attempt[]): Known<number> {
  const peaks = attempts.map(({ peakBytes }) => peakBytes).filter(isKnown);
  return peaks.length === 0 ? 'unknown' : Math.max(...peaks);
}

function readReport(path: string): RunReport | undefined {
  const report = readOwnDocument(path, { schema: 1, maxBytes: maxReportBytes });
  return report !== undefined && isReport(report) ? report : undefined;
}

function isReport(
  report: Readonly<Record<string, unknown>>,
): report is Readonly<Record<string, unknown>> & RunReport {
  return typeof report['outcome'] === 'string' && Array.isArray(report['attempts']);
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

function notOurs(path: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'not-in-slurm',
    fact: `This command is for jobs of Slurm that plimsoll submitted; ${path} is not one, or SLURM_JOB_ID is not set.`,
    next: 'Submit jobs with: plimsoll submit --engine slurm -- python train.py',
  });
}
