import { randomUUID } from 'node:crypto';
import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { Failure } from '../../failure.js';
import type { JobRequest } from '../../jobs/daemon/types.js';
import { closedWorkload } from '../../plan/answers/closed-workload.js';
import { checkRequest, readWorkload } from '../../plan/answers/read-workload.js';
import type { WorkloadRequest } from '../../plan/answers/workload-request.js';
import type { JobEnvironmentMode } from '../../plan/environment/job-environment.js';
import { checkProgram } from '../../run/program.js';
import type { CliIo } from '../io.js';
import { checkedEnvironment } from './environment-mode.js';
import { checkVariables } from './not-utf-8.js';
import { optionWording, type WorkloadArguments, workloadRequest } from './workload-options.js';

/** What the options of `submit` become. */
export interface SubmitArguments extends WorkloadArguments {
  readonly memory?: number;
  readonly model?: string;
  readonly priority?: number;
  readonly gpus?: number;
  readonly elastic?: number | true;
  readonly elasticLeast?: number;
  readonly timeout?: number;
  readonly estimateTimeout?: number;
  readonly name?: string;
  readonly cwd?: string;
  readonly env?: readonly string[];
  readonly envMode?: JobEnvironmentMode;
}

/** The job that was typed, with everything checked that can be checked here. */
export function submitRequest(
  words: readonly string[],
  given: SubmitArguments,
  { folder, environment }: Pick<CliIo, 'folder' | 'environment'>,
  isHere: boolean,
): JobRequest {
  if (words.length === 0) throw noCommand();
  const cwd = resolve(folder, given.cwd ?? '.');
  const named = given.env ?? [];
  const mode = given.envMode ?? 'production';
  const { environment: env, changes } = checkedEnvironment(
    jobEnvironment(environment, named),
    mode,
    { by: 'submit', named },
  );
  const workload = workloadOf(given, folder);
  if (isHere) {
    if (given.cwd !== undefined) checkFolder(cwd, given.cwd);
    checkProgram(words[0] ?? '', cwd, env);
  }
  return {
    command: words,
    memoryBytes: given.memory,
    workload,
    priority: given.priority,
    gpus: given.gpus,
    ...elasticRequest(given),
    timeoutSeconds: given.timeout,
    estimateTimeoutSeconds: given.estimateTimeout,
    cwd,
    env,
    environmentChanges: changes.length === 0 ? undefined : changes,
    name: given.name,
    batch: given.batch,
    // The same word again is the same job, however often it had to be sent.
    submission: randomUUID(),
  };
}

function elasticRequest({
  elastic,
  elasticLeast: leastBytes,
}: SubmitArguments): Pick<JobRequest, 'elastic'> {
  if (elastic === undefined && leastBytes === undefined) return {};
  return { elastic: { slowdown: elastic === true ? undefined : elastic, leastBytes } };
}

function workloadOf(given: SubmitArguments, folder: string): WorkloadRequest | undefined {
  // --gpus is for the queue: how many cards the job gets, not how its memory is estimated.
  const named = { ...workloadRequest(given.model, given, folder), gpus: undefined };
  if (Object.values({ ...named, batch: undefined }).every((value) => value === undefined)) {
    return undefined;
  }
  if (given.memory !== undefined) {
    throw badUsage('Both --memory and a workload to be estimated were given.');
  }
  // A script makes its own batch; that of the option is for the command.
  const request = named.script === undefined ? named : { ...named, batch: undefined };
  const { source, workload } = readWorkload(
    checkRequest(request, optionWording, 'estimate'),
    optionWording,
  );
  closedWorkload(workload, source, optionWording);
  return request;
}

function checkFolder(path: string, named: string): void {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return;
  throw new Failure({
    kind: 'input',
    code: 'bad-option',
    fact: `--cwd cannot be "${named}": there is no such folder.`,
    next: 'Name the folder that the command should start in.',
  });
}

function noCommand(): Failure {
  return new Failure({
    kind: 'input',
    code: 'no-command',
    fact: 'No command was given.',
    next: 'Write it after --, such as: plimsoll submit -- python train.py',
  });
}

function badUsage(fact: string): Failure {
  return new Failure({ kind: 'input', code: 'bad-usage', fact, next: 'Leave one of them out.' });
}

/**
 * What a job needs to find its programs, its Python and its files. Nothing else travels unasked: a
 * job is kept on the disk of the server, and an environment holds secrets.
 */
const travelling: ReadonlySet<string> = new Set([
  'PATH',
  'HOME',
  'USER',
  'LOGNAME',
  'SHELL',
  'LANG',
  'LANGUAGE',
  'TZ',
  'TMPDIR',
  'VIRTUAL_ENV',
  'CONDA_PREFIX',
  'CONDA_DEFAULT_ENV',
  'PYTHONPATH',
  'LD_LIBRARY_PATH',
  'CUDA_HOME',
  'HF_HOME',
  'TORCH_HOME',
  'XDG_CACHE_HOME',
  'PYTORCH_ALLOC_CONF',
  'PYTORCH_CUDA_ALLOC_CONF',
  'OMP_NUM_THREADS',
]);

/**
 * The environment that a job is sent with: the basics, and what `--env` names. `NAME=value` sets a
 * variable, `NAME` takes it from here.
 *
 * @example
 * jobEnvironment({ PATH: '/bin', SECRET: 'x', SEED: '1' }, ['SEED', 'LR=0.1']);
 * // { PATH: '/bin', SEED: '1', LR: '0.1' }
 */
export function jobEnvironment(
  environment: CliIo['environment'],
  named: readonly string[],
): Record<string, string> {
  const job: Record<string, string> = {};
  checkVariables(environment, (name) => travels(name) || named.includes(name));
  for (const [name, value] of Object.entries(environment)) {
    if (value !== undefined && travels(name)) job[name] = value;
  }
  for (const text of named) {
    const at = text.indexOf('=');
    const name = at === -1 ? text : text.slice(0, at);
    const value = at === -1 ? environment[name] : text.slice(at + 1);
    if (value === undefined) throw notSet(name);
    job[name] = value;
  }
  return job;
}

export function environmentArgument(
  text: string,
  before: readonly string[] = [],
): readonly string[] {
  if (/^[A-Za-z_]\w*(=|$)/.test(text)) return [...before, text];
  throw new Failure({
    kind: 'input',
    code: 'bad-option',
    fact: `--env cannot be "${text}".`,
    next: 'Write NAME=value, or the NAME of a variable that is set here.',
  });
}

function travels(name: string): boolean {
  return travelling.has(name) || name.startsWith('LC_');
}

function notSet(name: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-option',
    fact: `--env names ${name}, which is not set here.`,
    next: `Set it, or write --env ${name}=VALUE.`,
  });
}
