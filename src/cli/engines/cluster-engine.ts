import { join } from 'node:path';
import { StringDecoder } from 'node:string_decoder';
import type { Environment } from '../../config/environment.js';
import { loadSettings } from '../../config/load.js';
import type { Settings } from '../../config/settings.js';
import {
  type ClusterAttempt,
  type ClusterEngine,
  type ClusterJob,
  type ClusterState,
  hasClusterEnded,
} from '../../engine/cluster.js';
import { kubectlHere, kubectlStreamHere } from '../../engine/kubernetes/kubectl.js';
import { kubernetesEngine } from '../../engine/kubernetes/kubernetes-engine.js';
import { rayAddress, rayHttp } from '../../engine/ray/http.js';
import { rayEngine } from '../../engine/ray/ray-engine.js';
import { slurmCommands } from '../../engine/slurm/commands.js';
import { slurmEngine } from '../../engine/slurm/slurm-engine.js';
import { Failure } from '../../failure.js';
import { homeFolder, packageFolder } from '../../files/folders.js';
import { type Paint, paintLine, span, type TextStyle } from '../../report/text/spans.js';
import { cleanText, fitText, textWidth } from '../../report/text/text-width.js';
import { systemClock } from '../../time/clock.js';
import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import { isKnown, type Known } from '../../units/known.js';
import { sleepFor } from '../client/follow-log.js';
import { type CliIo, printJson, textStyle } from '../io.js';
import { reportError } from '../report-error.js';
import { stopOnSignals } from '../stop.js';
import type { EngineArguments } from './engine-option.js';

/** What a cluster's engine is opened with. */
interface ClusterPlace {
  readonly settings: Settings;
  readonly environment: Environment;
  /** Of programs that are submitted, where a cluster does not hand on that of its commands. */
  readonly programEnvironment: Readonly<Record<string, string>>;
}

/** The cluster that was named, as a person with this environment reaches it. */
export function openCluster(
  given: EngineArguments,
  { settings, environment, programEnvironment }: ClusterPlace,
): ClusterEngine {
  const { engine, address } = given;
  if (engine === 'kubernetes') {
    return kubernetesEngine({
      kubectl: kubectlHere(environment),
      kubectlStream: kubectlStreamHere(environment),
      image: given.containerImage,
      namespace: given.namespace,
      sharing: given.gpuSharing ?? 'none',
      supervision: given.supervisor ?? 'auto',
      host: { memoryBytes: given.hostMemory, cpus: given.cpus },
      environment: programEnvironment,
    });
  }
  const common = {
    home: homeFolder(environment),
    plimsoll: [process.execPath, join(packageFolder, 'bin/plimsoll.js')],
    gpus: settings.gpus ?? [],
  };
  if (engine === 'ray') {
    const own = settings.ray ?? {};
    const http = rayHttp(rayAddress(address, environment, own.address), { environment });
    return rayEngine({ ...common, http, environment: programEnvironment, settings: own });
  }
  return slurmEngine({
    ...common,
    run: slurmCommands(environment),
    environment,
    settings: settings.slurm ?? {},
  });
}

/** A cluster's controller serves many: it is not asked more often. */
const lookMs = 2000;

/** Copies what a job prints until it ended, or `signal` aborts; answers how it stands then. */
export async function followClusterJob(
  engine: ClusterEngine,
  id: string,
  options: {
    /** Left out, what it prints is not wanted, and not read. */
    readonly write?: ((text: string) => void) | undefined;
    readonly signal: AbortSignal;
  },
): Promise<ClusterJob> {
  const { write, signal } = options;
  const decoder = new StringDecoder('utf8');
  if (write !== undefined && engine.followLog !== undefined && !signal.aborted) {
    await engine.followLog(id, (bytes) => write(decoder.write(bytes)), signal);
    return engine.job(id);
  }
  let from = 0;
  for (;;) {
    // The state first: what was printed before the end is there then.
    const job = await engine.job(id);
    if (write !== undefined)
      from = await copyNew(engine, id, from, (bytes) => write(decoder.write(bytes)));
    if (hasClusterEnded(job.state) || signal.aborted) return job;
    await sleepFor(lookMs, signal);
  }
}

/** All that is there from this byte on; answers where it ends. */
async function copyNew(
  engine: ClusterEngine,
  id: string,
  from: number,
  take: (bytes: Buffer) => void,
): Promise<number> {
  for (let at = from; ; ) {
    const bytes = await engine.log(id, at);
    if (bytes.length === 0) return at;
    at += bytes.length;
    take(bytes);
  }
}

/** Older ones are shown with --all. */
const shownJobs = 100;

async function openEngine(given: EngineArguments, io: CliIo): Promise<ClusterEngine> {
  const { folder, environment } = io;
  const settings = await loadSettings({ folder, environment });
  return openCluster(given, { settings, environment, programEnvironment: {} });
}

/** `plimsoll jobs --engine slurm|ray [ID]`. */
export async function listClusterJobs(
  id: string | undefined,
  given: EngineArguments & {
    readonly all?: boolean;
    readonly state?: readonly string[];
    readonly json?: boolean;
  },
  io: CliIo,
): Promise<number> {
  const engine = await openEngine(given, io);
  const options = {
    columns: io.stdout.columns(),
    style: textStyle(io),
    nowMs: systemClock.epochMs(),
  };
  if (id !== undefined) {
    const job = await engine.job(id);
    if (given.json) printJson(io, job);
    else io.stdout.write(`${clusterJobLines(job).join('\n')}\n`);
    return 0;
  }
  const all = await engine.jobs(given.all === true ? Number.POSITIVE_INFINITY : shownJobs);
  const { state } = given;
  const jobs = state === undefined ? all : all.filter((job) => state.includes(job.state));
  if (given.json) printJson(io, { engine: engine.name, jobs });
  else if (jobs.length === 0) io.stdout.write('No jobs.\n');
  else io.stdout.write(`${clusterJobsTable(jobs, options).join('\n')}\n`);
  return 0;
}

/** `plimsoll logs --engine slurm|ray ID`. */
export async function showClusterLog(
  id: string,
  given: EngineArguments & {
    readonly follow?: boolean;
    readonly json?: boolean;
    readonly tail?: number;
  },
  io: CliIo,
): Promise<number> {
  const engine = await openEngine(given, io);
  using stop = stopOnSignals([io.stdout.closed]);
  let text = '';
  const collects = given.json === true || given.tail !== undefined;
  const write = (piece: string) => {
    if (collects) text += piece;
    else io.stdout.write(piece);
  };
  const signal = given.follow === true ? stop.signal : AbortSignal.abort();
  const job = await followClusterJob(engine, id, { write, signal });
  const shown = given.tail === undefined ? text : lastLines(text, given.tail);
  if (given.json) printJson(io, { id: job.id, state: job.state, from: 0, log: shown });
  else if (collects) io.stdout.write(shown);
  if (given.follow !== true) return 0;
  if (!hasClusterEnded(job.state)) return stop.interruptedBy ?? 0;
  io.stderr.write(`plimsoll: ${clusterJobText(job)}\n`);
  return job.state === 'succeeded' ? 0 : 4;
}

/** `plimsoll cancel --engine slurm|ray ID...`: each of them, whatever becomes of the others. */
export async function cancelClusterJobs(
  ids: readonly string[],
  given: EngineArguments & { readonly json?: boolean },
  io: CliIo,
): Promise<number> {
  const engine = await openEngine(given, io);
  const jobs: ClusterJob[] = [];
  const errors: { id: string; code: string; fact: string; next: string }[] = [];
  let exitCode = 0;
  for (const id of new Set(ids)) {
    try {
      const job = await engine.cancel(id);
      jobs.push(job);
      if (!given.json) io.stdout.write(`Job ${job.id} was asked to end.\n`);
    } catch (error) {
      if (!(error instanceof Failure) || error.kind !== 'input') throw error;
      const { code, fact, next } = error;
      errors.push({ id, code, fact, next });
      exitCode = Math.max(exitCode, code === 'job-has-ended' ? 1 : error.exitCode);
      if (!given.json) io.stderr.write(reportError(error, false).text);
    }
  }
  if (given.json) printJson(io, { jobs, errors });
  return exitCode;
}

function lastLines(text: string, count: number): string {
  const lines = text.split('\n');
  const ended = lines.at(-1) === '' ? 1 : 0;
  return lines.slice(Math.max(0, lines.length - ended - count)).join('\n');
}

const paints: Readonly<Record<ClusterState, Paint>> = {
  waiting: 'yellow',
  running: 'cyan',
  succeeded: 'green',
  failed: 'red',
  cancelled: 'dim',
  unknown: 'red',
};

const tableColumns: readonly {
  readonly title: string;
  readonly widest: number;
  readonly cell: (job: ClusterJob, nowMs: number) => string;
}[] = [
  { title: 'ID', widest: 26, cell: ({ id }) => id },
  { title: 'NAME', widest: 24, cell: ({ name }) => name },
  { title: 'STATE', widest: 24, cell: stateWords },
  { title: 'RESERVED', widest: 26, cell: (job) => reservedWords(job) },
  { title: 'PEAK', widest: 10, cell: ({ attempts }) => bytesOrDash(attempts.at(-1)?.peakBytes) },
  { title: 'TRIES', widest: 5, cell: ({ attempts }) => String(attempts.length) },
  { title: 'NODES', widest: 16, cell: ({ nodes }) => nodes },
  { title: 'SUBMITTED', widest: 14, cell: ({ submittedAt }, nowMs) => ago(submittedAt, nowMs) },
];

/** Jobs of a cluster as lines of a table, with why each waits or how it ended. */
function clusterJobsTable(
  jobs: readonly ClusterJob[],
  { columns, style, nowMs }: { columns: number; style: TextStyle; nowMs: number },
): readonly string[] {
  const mark = style.unicode ? '…' : '~';
  const cells = tableColumns.map(({ title, widest, cell }) => {
    const texts = jobs.map((job) => cleanText(cell(job, nowMs)));
    const width = Math.min(widest, Math.max(...[title, ...texts].map(textWidth)));
    return [title, ...texts].map((text) => `${fitText(text, width, mark)}  `);
  });
  return [undefined, ...jobs].map((job, row) => {
    const spans = cells.map((column, index) => {
      const isState = tableColumns[index]?.title === 'STATE';
      if (job === undefined) return span(column[row] ?? '', 'dim');
      return span(column[row] ?? '', isState ? paints[job.state] : undefined);
    });
    return paintLine([...spans, span(cleanText(job?.why ?? ''), 'dim')], columns, style).trimEnd();
  });
}

/** One sentence: what was asked for, and how it stands. */
export function clusterJobText(job: ClusterJob): string {
  const request = job.attempts.at(-1)?.request;
  const asked = request === undefined ? '' : `, ${request}`;
  const why = job.why === '' ? '' : ` (${job.why})`;
  return cleanText(`Job ${job.id} (${job.name}${asked}) is ${stateWords(job)}${why}.`);
}

/** All that is known of one job. */
function clusterJobLines(job: ClusterJob): readonly string[] {
  return [
    clusterJobText(job),
    `Command:   ${job.command.join(' ')}`,
    `Need:      ${job.gpus === 0 ? 'host memory' : `${job.gpus} x GPU`}, ${bytesWords(job.needBytes)} (${job.basis})`,
    ...(job.nodes === '' ? [] : [`Nodes:     ${job.nodes}`]),
    ...job.attempts.map(attemptLine),
  ].map(cleanText);
}

function attemptLine(attempt: ClusterAttempt): string {
  const { number, clusterId, request, reservedBytes, peakBytes, outOfMemory } = attempt;
  const limit = isKnown(reservedBytes) ? `, limited to ${formatBytes(reservedBytes)}` : '';
  const peak = isKnown(peakBytes) ? `, peak ${formatBytes(peakBytes)} (measured)` : '';
  return `Attempt ${number}: job ${clusterId}, ${request}${limit}${peak}${outOfMemory ? ', out of memory' : ''}`;
}

function stateWords({ state, tasks }: ClusterJob): string {
  if (tasks === null) return state;
  return Object.entries(tasks)
    .map(([name, count]) => `${count} ${name}`)
    .join(', ');
}

function reservedWords({ attempts, needBytes, gpus }: ClusterJob): string {
  const last = attempts.at(-1);
  const bytes = last !== undefined && isKnown(last.reservedBytes) ? last.reservedBytes : needBytes;
  const times = gpus > 1 ? `${gpus} x ` : '';
  if (last !== undefined && !isKnown(last.reservedBytes) && gpus > 0) return `${times}whole GPU`;
  return `${times}${bytesWords(bytes)}`;
}

function bytesWords(bytes: Known<number>): string {
  return isKnown(bytes) ? formatBytes(bytes) : 'unknown';
}

function bytesOrDash(bytes: Known<number> | undefined): string {
  return bytes === undefined || !isKnown(bytes) ? '-' : formatBytes(bytes);
}

function ago(at: string, nowMs: number): string {
  const seconds = Math.max(0, Math.round((nowMs - Date.parse(at)) / 1000));
  return `${seconds < 10 ? `${seconds} s` : formatSeconds(seconds)} ago`;
}
