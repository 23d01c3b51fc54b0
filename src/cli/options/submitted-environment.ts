import { Failure } from '../../failure.js';
import type { CliIo } from '../io.js';
import { checkVariables } from './not-utf-8.js';

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
