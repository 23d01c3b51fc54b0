import { execFile } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { readKernelBytes, readKernelFile } from '../../device/kernel-files.js';
import type { Known } from '../../units/known.js';
import { runIdVariable } from '../attempt-environment.js';
import { jobOf, jobVariables, type ProcessJob } from './job-of.js';
import { environmentLimitBytes, type ProcessEntry, readProcess } from './process-table.js';

/** Identity of a process, from /proc. */
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

/** Reads the facts about a process; undefined if there is none of that pid. */
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
 * Returns the file or module that an interpreter runs, without its options.
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

/** The run that an environment names. */
export function runIdIn(environment: Uint8Array): string | undefined {
  const bytes = Buffer.from(environment.buffer, environment.byteOffset, environment.byteLength);
  const name = `${runIdVariable}=`;
  for (let at = bytes.indexOf(name); at !== -1; at = bytes.indexOf(name, at + 1)) {
    if (at > 0 && bytes[at - 1] !== 0) continue;
    const end = bytes.indexOf(0, at);
    return bytes.toString('utf8', at + name.length, end === -1 ? bytes.length : end);
  }
  return undefined;
}

/** An engine of containers, and how the cgroup of one of its containers is called. */
const shapes: readonly (readonly [engine: string, pattern: RegExp])[] = [
  ['docker', /(?:\/docker[/-]|docker-)([0-9a-f]{12,64})(?:\.scope)?(?:\/|$)/],
  ['podman', /libpod-([0-9a-f]{12,64})(?:\.scope)?(?:\/|$)/],
  ['containerd', /cri-containerd-([0-9a-f]{12,64})(?:\.scope)?(?:\/|$)/],
  ['cri-o', /crio-([0-9a-f]{12,64})(?:\.scope)?(?:\/|$)/],
  ['kubernetes', /\/kubepods[^\n]*\/(?:[\w.-]*-)?([0-9a-f]{32,64})(?:\.scope)?(?:\/|$)/],
  ['lxc', /\/lxc(?:\.payload)?[/.]([\w.-]{1,64})(?:\/|$)/],
  ['slurm', /\/slurm[^\n]*\/job_(\d{1,12})(?:\/|$)/],
];

/** As short as the engines themselves show them. */
const shownId = 12;

/**
 * The container that a process runs in, by the names of its cgroups: `docker 3f2a9c1b7d04`, or `none`.
 * A process inside sees its own cgroup as the root of all, so `unknown` stands for no cgroup at all.
 *
 * @example
 * containerOf('0::/system.slice/docker-3f2a9c1b7d04aa.scope\n'); // 'docker 3f2a9c1b7d04'
 */
export function containerOf(cgroups: string | undefined): Known<string> {
  if (cgroups === undefined || cgroups === '') return 'unknown';
  for (const line of cgroups.split('\n')) {
    for (const [engine, pattern] of shapes) {
      const id = pattern.exec(line)?.[1];
      if (id !== undefined) return `${engine} ${id.slice(0, shownId)}`;
    }
  }
  return 'none';
}

/** Larger than any list of local accounts; a longer one is not read. */
const passwdLimitBytes = 4 * 1024 * 1024;
/** A directory service that does not answer leaves the number standing. */
const timeoutMs = 5000;

/** The names in a file of the form of /etc/passwd, by uid. */
export function parsePasswd(text: string): Map<number, string> {
  const names = new Map<number, string>();
  for (const line of text.split('\n')) {
    const [name = '', , uid = ''] = line.split(':');
    if (name !== '' && /^\d{1,10}$/.test(uid) && !names.has(Number(uid))) {
      names.set(Number(uid), name);
    }
  }
  return names;
}

/**
 * Names of accounts by uid. One that is not in the local file is asked of the machine's directory
 * (LDAP, SSSD) once, in the background; until the answer comes its number stands for it.
 */
export function openUserNames(path = '/etc/passwd'): (uid: number) => string {
  const names = readPasswd(path);
  return (uid) => {
    const known = names.get(uid);
    if (known !== undefined) return known;
    names.set(uid, String(uid));
    execFile('getent', ['passwd', String(uid)], { timeout: timeoutMs }, (_, stdout) => {
      const found = parsePasswd(stdout).get(uid);
      if (found !== undefined) names.set(uid, found);
    }).unref();
    return String(uid);
  };
}

function readPasswd(path: string): Map<number, string> {
  try {
    const bytes = readFileSync(path);
    return bytes.length > passwdLimitBytes ? new Map() : parsePasswd(bytes.toString('utf8'));
  } catch {
    return new Map();
  }
}
