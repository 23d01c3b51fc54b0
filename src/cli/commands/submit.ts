import { basename, join } from 'node:path';
import type { Command } from 'commander';
import { loadSettings } from '../../config/load.js';
import type { Settings } from '../../config/settings.js';
import { type ClusterOrder, hasClusterEnded } from '../../engine/cluster.js';
import { gpuSharings, supervisions } from '../../engine/kubernetes/pod-request.js';
import { keptPeaks, measuredFolder } from '../../engine/measured-peaks.js';
import { Failure } from '../../failure.js';
import { homeFolder } from '../../files/folders.js';
import { workloadKey } from '../../jobs/corrections.js';
import { keptProgram } from '../../jobs/daemon/estimates/kept-programs.js';
import { judgeNeed } from '../../jobs/daemon/submission/need.js';
import { programNeed } from '../../jobs/daemon/submission/program-need.js';
import { asProgramRuns } from '../../jobs/daemon/submission/submission.js';
import type { JobRequest, JobView } from '../../jobs/daemon/types.js';
import { hasEnded } from '../../jobs/types.js';
import { findModel } from '../../model/names/find-model.js';
import { answerEstimate } from '../../plan/answers/answer-estimate.js';
import { KeptAnswers } from '../../plan/answers/kept-answers.js';
import { type AnswerMachine, chosenGpu } from '../../plan/answers/machine.js';
import { isModelName } from '../../plan/answers/source-of.js';
import {
  changesOf,
  changeWords,
  type EnvironmentChange,
} from '../../plan/environment/job-environment.js';
import { bytesToReserve } from '../../plan/fit/fit.js';
import { jobEndWords, jobStandsWords, submittedWords } from '../../report/text/job-text.js';
import { systemClock } from '../../time/clock.js';
import { isKnown, type Known } from '../../units/known.js';
import { capitalized } from '../../units/words.js';
import {
  addServerOptions,
  isOnThisMachine,
  placeOf,
  type ServerArguments,
} from '../client/find-server.js';
import { sleepFor } from '../client/follow-log.js';
import {
  mayHaveArrived,
  type ServerClient,
  submitJob,
  unreachableCode,
  withServer,
} from '../client/server-client.js';
import { jobExitCode, watchJob } from '../client/watch-job.js';
import { clusterJobText, followClusterJob, openCluster } from '../engines/cluster-engine.js';
import {
  addEngineOption,
  checkedForCluster,
  clusterOf,
  type EngineArguments,
} from '../engines/engine-option.js';
import {
  type CliIo,
  type CommandContext,
  type CommandModule,
  printJson,
  textStyle,
} from '../io.js';
import {
  countArgument,
  gpusArgument,
  oneOfArgument,
  priorityArgument,
  sizeArgument,
  slowdownArgument,
  traceArgument,
  waitArgument,
} from '../options/arguments.js';
import { checkedEnvironment, environmentModeArgument } from '../options/environment-mode.js';
import {
  environmentArgument,
  jobEnvironment,
  type SubmitArguments,
  submitRequest,
} from '../options/submit-request.js';
import {
  addTypeOptions,
  addWorkloadOptions,
  groupOptions,
  workloadMachine,
} from '../options/workload-options.js';
import { openLiveProgress } from '../screen/progress.js';
import { stopOnSignals } from '../stop.js';

interface Arguments extends SubmitArguments, ServerArguments, EngineArguments {
  readonly dryRun?: boolean;
  readonly attempts?: number;
  readonly follow?: boolean;
  readonly wait?: boolean;
}

export const submitCommand: CommandModule = {
  define(command, context) {
    command
      .argument('[command...]', 'the program and its arguments, after --')
      .passThroughOptions()
      .option('--memory <size>', 'what it takes of each device', sizeArgument('--memory'))
      .option(
        '--model <model>',
        'instead: the model or its name, from which its memory is estimated',
      )
      .option('--priority <n>', 'the higher, the sooner (0)', priorityArgument)
      .option('--gpus <n>', 'GPUs needed together; 0 = host memory (default 1)', gpusArgument)
      .option(
        '--elastic [times]',
        'may start with less, if a step then takes at most so many times as long (1.5); its limit may move',
        slowdownArgument,
      )
      .option(
        '--elastic-least <size>',
        'with --elastic: what it can do with, where no estimate predicts it',
        sizeArgument('--elastic-least'),
      )
      .option('--timeout <duration>', 'how long it may wait, such as 10m', waitArgument)
      .option(
        '--estimate-timeout <duration>',
        'how long tracing the program may take (120 s); 0 = do not trace',
        traceArgument,
      )
      .option('--name <name>', 'name of the job in lists')
      .option('--cwd <folder>', 'working directory (the current one)')
      .option(
        '--env <name=value>',
        'environment variable for the job; NAME alone copies it from here',
        environmentArgument,
      )
      .option(
        '--env-mode <mode>',
        'production (default): no debug settings but those --env names, and recommended allocator settings; or keep',
        environmentModeArgument,
      )
      .option('--follow', 'show what it prints until it ends')
      .option('--wait', 'wait until it ends')
      .option('--dry-run', 'with a cluster: print what would be submitted')
      .option(
        '--attempts <n>',
        'with a cluster: submissions at most, each with a larger request (3)',
        countArgument('--attempts'),
      )
      .option('--container-image <name>', 'with kubernetes: the image that has the program')
      .option(
        '--gpu-sharing <way>',
        'with kubernetes: how its GPUs are shared: hami, kai or none (none)',
        oneOfArgument('--gpu-sharing', gpuSharings),
      )
      .option(
        '--host-memory <size>',
        'with kubernetes: host memory to request (a rule by the GPU memory)',
        sizeArgument('--host-memory'),
      )
      .option(
        '--cpus <n>',
        'with kubernetes: processors to request (2 for each GPU)',
        countArgument('--cpus'),
      )
      .option(
        '--supervisor <when>',
        'with kubernetes: run it under "plimsoll run": auto (where the image has it), always, never (auto)',
        oneOfArgument('--supervisor', supervisions),
      )
      // Options of a cluster's own command; a server of ours refuses them.
      .allowUnknownOption();
    addEngineOption(addServerOptions(addTypeOptions(addWorkloadOptions(command))));
    groupOptions(command, optionGroups);
    command.addHelpText('after', help).action(
      context.action((typed: readonly string[]) => {
        const words = withoutOwnOptions(typed, command);
        const given = command.opts<Arguments>();
        return clusterOf(given) === undefined
          ? submit(words, checkedForServer(words, given, command), context)
          : submitToCluster(words, checkedForCluster(given), context);
      }),
    );
  },
};

/** The options that most people need stand first in the help. */
const optionGroups = {
  'Options used most:': [
    ...['--memory', '--model', '--priority', '--gpus', '--timeout', '--name', '--cwd', '--env'],
    ...['--follow', '--wait', '--batch', '--json'],
  ],
  'Clusters:': [
    ...['--engine', '--dry-run', '--attempts', '--container-image', '--gpu-sharing'],
    ...['--host-memory', '--cpus', '--supervisor', '--address', '--namespace'],
  ],
  'Server:': ['--server', '--token-file', '--ca'],
};

const help = `
Without --memory and without a model, the job reserves what earlier runs of the same command were
measured to use. A command that never ran is accepted at once and traced before it may start, if it
is a Python program for one GPU: it runs on a simulated GPU until each of its phases was seen. If that
fails, it gets a whole device for its first run. "plimsoll jobs ID" shows how far the trace is. {batch_size} and {accumulation} in the command are replaced. The job gets PATH, HOME,
the active Python environment and similar variables, plus those named by --env.

With --engine slurm the job goes to a Slurm cluster: it asks for the shards or the GPU type that its
memory needs, and runs under "plimsoll run" on the node. With --engine ray it goes to a Ray cluster, with
the share of a GPU that its memory needs. Options of sbatch or Ray stand among our own, before --. With
--engine kubernetes it becomes a Job with the GPU memory that HAMi or KAI shall give it.

The exit code is 0 when the job was accepted and 1 when it was refused; with --follow or --wait it is 0
when the job succeeded, 1 when it was refused or waited too long, and 4 when it failed or was
cancelled. Ctrl-C leaves the job running.

Examples:
  plimsoll submit --memory 6GiB -- python train.py
  plimsoll submit --estimate-timeout 5m -- python train.py
  plimsoll submit --follow --batch 32 -- python train.py --batch-size {batch_size} --accumulate {accumulation}
  plimsoll submit --model llama-3.2-1b --batch 4 --seq 1024 --precision bf16 -- python train.py
  plimsoll submit --engine slurm --dry-run --memory 30GiB --time=2:00:00 -- python train.py
  plimsoll submit --engine ray --address http://head:8265 --memory 20GiB -- python train.py
  plimsoll submit --engine kubernetes --gpu-sharing hami --container-image pytorch/pytorch --memory 20GiB --dry-run -- python train.py
  plimsoll submit --model gpt2/ --batch 8 --seq 1024 --precision bf16 --gpus 2 --timeout 1h -- python train.py`;

async function submit(
  words: readonly string[],
  given: Arguments,
  { io }: CommandContext,
): Promise<number> {
  return withServer(given, io, async (client, stop) => {
    const isHere = isOnThisMachine(client.address);
    const model = await hubModel(given, io, isHere, stop.signal);
    const request = submitRequest(words, { ...given, ...(model && { model }) }, io, isHere);
    const job = await sendJob(client, request, stop.signal);
    const watched = given.follow === true || given.wait === true;
    const nowMs = systemClock.epochMs();
    const said = watched ? jobStandsWords(job, nowMs) : submittedWords(job, nowMs);
    if (!watched) {
      if (given.json) printJson(io, job);
      else io.stdout.write(`${capitalized(said)}\n`);
      return jobExitCode(job.state);
    }
    // One that ended at once is told about below.
    if (given.json || !hasEnded(job.state)) io.stderr.write(`plimsoll: ${said}\n`);
    const ended = await watchJob(job, {
      client,
      stop,
      io,
      follow: given.follow === true,
      json: given.json === true,
    });
    if (ended === undefined) return stop.interruptedBy ?? 0;
    if (given.json) printJson(io, ended);
    else io.stderr.write(`plimsoll: ${jobEndWords(ended)}\n`);
    return jobExitCode(ended.state);
  });
}

/**
 * Reads our own options that stand among those of a cluster's command, where commander stops at the first
 * word that it does not know. Answers the other words.
 */
function withoutOwnOptions(words: readonly string[], command: Command): readonly string[] {
  const end = words.indexOf('--');
  if (end === -1 || words[0]?.startsWith('-') !== true) return words;
  const own: string[] = [];
  const others: string[] = [];
  for (let at = 0; at < end; at += 1) {
    const word = words[at] ?? '';
    const flag = word.replace(/=.*/s, '');
    const option = command.options.find(({ short, long }) => short === flag || long === flag);
    (option === undefined ? others : own).push(word);
    const takesNext = option?.required === true && !word.includes('=') && at + 1 < end;
    if (takesNext) own.push(words[++at] ?? '');
  }
  command.parseOptions(own);
  return [...others, ...words.slice(end)];
}

/** What only a cluster takes is an error here, as any unknown option is. */
function checkedForServer(words: readonly string[], given: Arguments, command: Command): Arguments {
  const [first = ''] = words;
  if (first.startsWith('-')) {
    command.error(`error: unknown option '${first}'`, { code: 'commander.unknownOption' });
  }
  for (const option of ['dryRun', 'attempts'] as const) {
    if (given[option] === undefined) continue;
    throw new Failure({
      kind: 'input',
      code: 'bad-usage',
      fact: `--${option === 'dryRun' ? 'dry-run' : option} is for a cluster, and no --engine names one.`,
      next: 'Add --engine slurm, ray or kubernetes, or leave it out.',
    });
  }
  return given;
}

function noElastic(): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-usage',
    fact: '--elastic is for a server of plimsoll: a cluster does not move the memory of its jobs.',
    next: 'Leave out --elastic or --engine.',
  });
}

interface ClusterSubmitArguments extends SubmitArguments, EngineArguments {
  readonly dryRun?: boolean;
  readonly attempts?: number;
  readonly follow?: boolean;
  readonly wait?: boolean;
  readonly json?: boolean;
}

/** How often a job is submitted, each time with a larger request. */
const usualAttempts = 3;

/** `plimsoll submit --engine slurm|ray|kubernetes [options] [options of the cluster] -- python train.py`. */
async function submitToCluster(
  words: readonly string[],
  given: ClusterSubmitArguments,
  { io, version }: CommandContext,
): Promise<number> {
  if (given.elastic !== undefined || given.elasticLeast !== undefined) throw noElastic();
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
  const capacities = (await engine.devices(options)).map(({ capacityBytes }) => capacityBytes);
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
      version,
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

/** What was typed, checked, with what the cluster offers at most. */
interface ClusterAsk {
  readonly request: JobRequest;
  readonly name: string;
  readonly maxAttempts: number;
  readonly options: readonly string[];
  readonly environmentChanges: readonly EnvironmentChange[];
  /** Of the largest GPU. */
  readonly offerBytes: Known<number>;
  readonly settings: Settings;
  readonly version: string;
  readonly onProgress: (text: string, share?: number) => void;
  readonly signal: AbortSignal;
}

/** The job with what it needs: stated, else measured by earlier runs, else estimated, else unknown. */
async function clusterOrder(ask: ClusterAsk, io: CliIo): Promise<ClusterOrder> {
  const { request, settings } = ask;
  const { command, cwd = io.folder, gpus = 1, batch, memoryBytes } = request;
  const key = workloadKey({
    command,
    workload: request.workload && { ...request.workload },
    settings: { batch },
    gpus,
  });
  const runs = keptPeaks(measuredFolder(homeFolder(io.environment)), key);
  const offerBytes = isKnown(ask.offerBytes) && gpus > 0 ? ask.offerBytes : Number.MAX_SAFE_INTEGER;
  const isOpen = memoryBytes === undefined && !runs.some(({ askedBytes }) => askedBytes === 'none');
  const estimatedBytes = isOpen ? await estimated(ask, offerBytes, settings, io) : 'unknown';
  const { need, alone } = judgeNeed({
    gpus,
    statedBytes: memoryBytes,
    estimatedBytes,
    runs,
    offerBytes,
  });
  return {
    name: ask.name,
    command,
    cwd,
    gpus,
    needBytes: alone ? 'unknown' : need.bytes,
    basis: need.basis,
    estimatedBytes,
    workloadKey: key,
    batch: batch ?? 'unknown',
    maxAttempts: ask.maxAttempts,
    options: ask.options,
    ...changesOf(ask),
  };
}

async function estimated(
  { request, version, onProgress, signal }: ClusterAsk,
  offerBytes: number,
  settings: Settings,
  io: CliIo,
): Promise<Known<number>> {
  const machine: AnswerMachine = { ...workloadMachine(settings, io, {}), signal, onProgress };
  if (request.workload !== undefined) {
    return bytesToReserve(
      await answerEstimate(asProgramRuns(request.workload), machine),
      offerBytes,
    );
  }
  const found = await programNeed(
    request,
    offerBytes,
    async ({ command, folder = io.folder, variables, timeoutSeconds }, stopped) => {
      const { gpu } = await chosenGpu(undefined, machine);
      const environment = { ...io.environment, ...variables };
      const place = { ...machine, folder, environment, signal: stopped, timeoutSeconds };
      const kept = new KeptAnswers(join(homeFolder(io.environment), 'answers'));
      const { estimate } = await keptProgram({ command, gpu }, place, { kept, version });
      return estimate;
    },
    signal,
  );
  if (found?.failure) io.stderr.write(`plimsoll: it could not be traced: ${found.failure}\n`);
  return found?.bytes ?? 'unknown';
}

/** The folder of a config that was downloaded because --hub asks for it; undefined without --hub. */
async function hubModel(
  { model, hub }: { readonly model?: string; readonly hub?: boolean },
  { environment }: Pick<CliIo, 'environment'>,
  isHere: boolean,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (hub !== true || model === undefined || !isModelName(model)) return undefined;
  if (!isHere) {
    throw new Failure({
      kind: 'input',
      code: 'bad-usage',
      fact: '--hub downloads to this machine, and the server is on another one.',
      next: 'Leave --hub out, or give --memory.',
    });
  }
  const { source } = await findModel(model, { environment, hub, signal });
  return source.kind === 'path' ? source.path : undefined;
}

/** A server that is started anew is back within this time. */
const maxTries = 20;
const betweenMs = 500;

/**
 * Sends a job until the server says that it has it. Sent again with the same word it stays one job,
 * so a connection that broke in between doubles nothing.
 */
export async function sendJob(
  client: ServerClient,
  request: JobRequest,
  signal: AbortSignal,
  sleep: (ms: number) => Promise<void> = (ms) => sleepFor(ms, signal),
): Promise<JobView> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await submitJob(client, request);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      const isAway = error.code === unreachableCode;
      // There was no server to begin with: that will not change by itself.
      const isPassing =
        error.code === 'closing' || (isAway && (tries > 1 || mayHaveArrived(error)));
      if (!isPassing) throw error;
      if (tries >= maxTries) throw mayBeThere(client, error);
    }
    await sleep(betweenMs);
  }
}

function mayBeThere({ address }: ServerClient, cause: Failure): Failure {
  return new Failure({
    kind: 'missing',
    code: unreachableCode,
    fact: `The server at ${placeOf(address)} stopped before it answered; it may have accepted the job.`,
    next: 'Run "plimsoll jobs" once the server is back to see whether it did.',
    cause,
  });
}
