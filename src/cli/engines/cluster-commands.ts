import { loadSettings } from '../../config/load.js';
import { type ClusterEngine, type ClusterJob, hasClusterEnded } from '../../engine/cluster.js';
import { Failure } from '../../failure.js';
import {
  clusterJobLines,
  clusterJobsTable,
  clusterJobText,
} from '../../report/text/engines/cluster-jobs.js';
import { systemClock } from '../../time/clock.js';
import { type CliIo, printJson, textStyle } from '../io.js';
import { reportError } from '../report-error.js';
import { stopOnSignals } from '../stop.js';
import type { EngineArguments } from './engine-option.js';
import { followClusterJob, openCluster } from './open-cluster-engine.js';

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
