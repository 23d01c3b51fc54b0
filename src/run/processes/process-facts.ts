import { statSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { readKernelBytes, readKernelFile } from '../../device/kernel-files.js';
import type { Known } from '../../units/known.js';
import { containerOf } from './container-of.js';
import { jobOf, jobVariables, type ProcessJob } from './job-of.js';
import { environmentLimitBytes, type ProcessEntry, readProcess } from './process-table.js';
import { runIdIn } from './run-id.js';

/** Who a process is, as /proc tells it. */
export interface ProcessFacts {
  readonly pid: number;
  readonly parent: number;
  /** In ticks since the machine started: tells it from a later process of the same pid. */
  readonly started: number;
  readonly user: Known<string>;
  /** Its program and arguments, separated by spaces. */
  readonly commandLine: Known<string>;
  /** The Python file or module, or the shell script that it runs; or `none`. */
  readonly script: Known<string>;
  /** Or `none`. */
  readonly container: Known<string>;
  /** The run of ours that it belongs to, or `none`; `unknown` where its environment may not be read. */
  readonly run: Known<string>;
  /** The job that it belongs to, on whichever scheduler. */
  readonly job: ProcessJob | undefined;
}

/** More than a screen shows; a command line may have megabytes. */
const commandLimitBytes = 8192;

export interface FactsOptions {
  readonly procRoot: string;
  readonly userName: (uid: number) => string;
  /** The name of this machine. */
  readonly node?: string;
}

/** What is known of a process; undefined when there is none of that pid. */
export function readProcessFacts(pid: number, options: FactsOptions): ProcessFacts | undefined {
  const entry = readProcess(options.procRoot, pid);
  return entry === undefined ? undefined : factsOf(entry, options);
}

/** The same for a process whose entry has been read. */
export function factsOf(
  entry: ProcessEntry,
  { procRoot, userName, node = hostname() }: FactsOptions,
): ProcessFacts {
  const { pid, parent, started } = entry;
  const folder = join(procRoot, String(pid));
  const words = commandWords(folder);
  const cgroups = readKernelFile(join(folder, 'cgroup'));
  // Its bytes are good until the next file is read.
  const environment = readKernelBytes(join(folder, 'environ'), environmentLimitBytes);
  const run = environment === undefined ? 'unknown' : (runIdIn(environment) ?? 'none');
  const variables = environment === undefined ? new Map() : jobVariables(environment);
  return {
    pid,
    parent,
    started,
    user: ownerOf(folder, userName),
    commandLine: asLine(words, folder),
    script: words.length > 0 ? scriptIn(words) : 'none',
    container: containerOf(cgroups),
    run,
    job: jobOf(variables, cgroups, node),
  };
}

/** The program of a process and its arguments, separated by spaces. */
export function readCommandLine(procRoot: string, pid: number): Known<string> {
  const folder = join(procRoot, String(pid));
  return asLine(commandWords(folder), folder);
}

function asLine(words: readonly string[], folder: string): Known<string> {
  return words.length > 0 ? words.join(' ') : shortName(folder);
}

function commandWords(folder: string): readonly string[] {
  const words = (readKernelFile(join(folder, 'cmdline'), commandLimitBytes) ?? '').split('\0');
  while (words.at(-1) === '') words.pop();
  return words.map((word) => word.trim());
}

/** Threads of the kernel have no command line, but a name. */
function shortName(folder: string): Known<string> {
  const name = readKernelFile(join(folder, 'comm'))?.trim() ?? '';
  return name === '' ? 'unknown' : `[${name}]`;
}

function ownerOf(folder: string, userName: (uid: number) => string): Known<string> {
  try {
    return userName(statSync(folder).uid);
  } catch {
    return 'unknown';
  }
}

/**
 * What an interpreter runs: the file or the module, without its options.
 *
 * @example
 * scriptIn(['/usr/bin/python3', '-u', 'train.py', '--lr', '1']); // 'train.py'
 */
export function scriptIn(words: readonly string[]): string {
  const program = (words[0] ?? '').slice((words[0] ?? '').lastIndexOf('/') + 1);
  if (!/^(python|pypy|node|bash|sh|zsh|perl|ruby|Rscript)[\d.]*$/.test(program)) return 'none';
  for (let at = 1; at < words.length; at++) {
    const word = words[at] ?? '';
    if (word === '-m') return words[at + 1] ?? 'none';
    if (word === '-c' || word === '-e') return 'none';
    // Options of Python that take a word of their own.
    if (word === '-W' || word === '-X') at++;
    else if (word !== '' && !word.startsWith('-')) return word;
  }
  return 'none';
}
