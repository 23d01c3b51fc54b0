import { basename } from 'node:path';
import { loadSettings } from '../../config/load.js';
import { hasClusterEnded } from '../../engine/cluster.js';
import { Failure } from '../../failure.js';
import type { JobRequest } from '../../jobs/daemon/types.js';
import { changeWords, type EnvironmentChange } from '../../plan/environment/job-environment.js';
import { clusterJobText } from '../../report/text/engines/cluster-jobs.js';
import { isKnown } from '../../units/known.js';
import type { CommandContext } from '../command-module.js';
import { printJson, textStyle } from '../io.js';
import { checkedEnvironment } from '../options/environment-mode.js';
import { type SubmitArguments, submitRequest } from '../options/submit-request.js';
import { jobEnvironment } from '../options/submitted-environment.js';
import { openLiveProgress } from '../screen/live-progress.js';
import { stopOnSignals } from '../stop.js';
import { clusterOrder } from './cluster-order.js';
import type { EngineArguments } from './engine-option.js';
import { followClusterJob } from './follow-cluster-job.js';
import { openCluster } from './open-cluster-engine.js';

export interface ClusterSubmitArguments extends SubmitArguments, EngineArguments {
  readonly dryRun?: boolean;
  readonly attempts?: number;
  readonly follow?: boolean;
  readonly wait?: boolean;
  readonly json?: boolean;
}

/** How often a job is submitted, each time with a larger request. */
const usualAttempts = 3;

/** `plimsoll submit --engine slurm|ray|kubernetes [options] [options of the cluster] -- python train.py`. */
export async function submitToCluster(
  words: readonly string[],
  given: ClusterSubmitArguments,
  { io }: CommandContext,
): Promise<number> {
  const { command, options } = splitWords(words, given.engine);
  const isKubernetes = given.engine === 'kubernetes';
  if (isKubernetes && options[0] !== undefined) throw noOptions(options[0]);
  // In an image the program is not the one of this machine.
  const request = submitRequest(command, given, io, !isKubernetes);
  const settings = await loadSettings({ folder: io.folder, environment: io.environment });
  const mode = given.envMode ?? 'production';
  // Nodes of Slurm get all of this environment, as with sbatch itself; it is not written to a file.
  const named = given.env ?? [];
  const { environment, changes } = checkedEnvironment({ ...io.environment, ...request.env }, mode, {
    by: 'submit',
    named,
  });
  const environmentChanges = changesFor(given.engine, changes, request);
  for (const change of environmentChanges) io.stderr.write(`plimsoll: ${changeWords(change)}\n`);
  const programEnvironment = isKubernetes ? jobEnvironment({}, valued(named, io)) : request.env;
  const place = { settings, environment, programEnvironment: programEnvironment ?? {} };
  const engine = openCluster(given, place);
  using stop = stopOnSignals([io.stdout.closed]);
  const progress = openLiveProgress(io.stderr, textStyle(io).unicode);
  const capacities = (await engine.devices()).map(({ capacityBytes }) => capacityBytes);
  const known = capacities.filter(isKnown);
  const order = await clusterOrder(
    {
      request,
      name:
        given.name ?? basename(command.find((word) => /\.\w+$/.test(word)) ?? command[0] ?? 'job'),
      maxAttempts: given.attempts ?? usualAttempts,
      options,
      environmentChanges,
      offerBytes: known.length === 0 ? 'unknown' : Math.max(...known),
      settings,
      onProgress: (text, share) => progress.show(text, share),
      signal: stop.signal,
    },
    io,
  ).finally(() => progress.end());
  if (given.dryRun === true) {
    const script = await engine.preview(order);
    if (given.json) printJson(io, { engine: engine.name, order, script });
    else io.stdout.write(script);
    return 0;
  }
  const job = await engine.submit(order);
  for (const note of job.notes) io.stderr.write(`plimsoll: ${note}\n`);
  if (given.follow !== true && given.wait !== true) {
    if (given.json) printJson(io, job);
    else io.stdout.write(`${clusterJobText(job)}\n`);
    return 0;
  }
  io.stderr.write(`plimsoll: ${clusterJobText(job)}\n`);
  const ended = await followClusterJob(engine, job.id, {
    write: given.follow === true ? (text) => io.stdout.write(text) : undefined,
    signal: stop.signal,
  });
  if (!hasClusterEnded(ended.state)) return stop.interruptedBy ?? 0;
  if (given.json) printJson(io, ended);
  else io.stderr.write(`plimsoll: ${clusterJobText(ended)}\n`);
  return ended.state === 'succeeded' ? 0 : 4;
}

/** Options of the cluster's own command stand before --, the command behind it. */
function splitWords(
  words: readonly string[],
  engine: EngineArguments['engine'],
): {
  readonly command: readonly string[];
  readonly options: readonly string[];
} {
  const [first = ''] = words;
  if (!first.startsWith('-')) return { command: words, options: [] };
  const at = words.indexOf('--');
  if (at !== -1) return { options: joined(words.slice(0, at)), command: words.slice(at + 1) };
  throw new Failure({
    kind: 'input',
    code: 'no-command',
    fact: 'No command was given.',
    next: `Write it after --, such as: plimsoll submit --engine ${engine} -- python train.py`,
  });
}

/** `--time 10` becomes `--time=10`: a line of a batch script holds one option. */
function joined(words: readonly string[]): readonly string[] {
  const options: string[] = [];
  for (const word of words) {
    const before = options.at(-1);
    if (word.startsWith('-') || before === undefined) options.push(word);
    else if (before.startsWith('--') && !before.includes('='))
      options.splice(-1, 1, `${before}=${word}`);
    else if (/^-[a-zA-Z]$/.test(before)) options.splice(-1, 1, `${before}${word}`);
    else throw unexpected(word);
  }
  return options;
}

/** Slurm hands the whole environment on, Ray what travels with a job, Kubernetes only what was named. */
function changesFor(
  engine: EngineArguments['engine'],
  ofAll: readonly EnvironmentChange[],
  { environmentChanges = [] }: JobRequest,
): readonly EnvironmentChange[] {
  if (engine === 'kubernetes') return [];
  return engine === 'ray' ? environmentChanges : ofAll;
}

/** Variables of this machine mean nothing in an image: only those that were named go there. */
function valued(named: readonly string[], io: CommandContext['io']): readonly string[] {
  return named.map((text) => (text.includes('=') ? text : `${text}=${io.environment[text] ?? ''}`));
}

function noOptions(option: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-usage',
    fact: `"${option.slice(0, 100)}" is not an option of submit, and Kubernetes takes none.`,
    next: 'Change the manifest that --dry-run prints, and submit it with kubectl.',
  });
}

function unexpected(word: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-usage',
    fact: `"${word.slice(0, 100)}" is not an option of the cluster.`,
    next: 'Write options of sbatch or Ray before --, and the command after it.',
  });
}
