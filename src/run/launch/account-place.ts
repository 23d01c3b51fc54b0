import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { StartAs } from '../../estimate/trace/run-python.js';
import type { TracePlace } from '../../estimate/trace/trace-place.js';
import { Failure } from '../../failure.js';
import { GiB, MiB } from '../../units/bytes.js';
import { cgroupPids, limitOfProcesses, makeLimitCgroup, removeCgroup } from '../limit/cgroup.js';
import type { Account } from '../types.js';
import { accountEnvironment, becoming } from './become-order.js';

/** A trace takes 1 to 2 GiB; a program may read its data before it trains. */
const memoryBytes = 8 * GiB;
/** Traces of large models have some tens of MiB. What is read becomes memory of the server. */
const maxBytes = 128 * MiB;
/** For what makes, reads and removes the folder. A file may have become a pipe that never ends. */
const toolMs = 60_000;
/** A folder that every account can write; our own temporary folder may be closed to others. */
const sharedFolder = '/tmp';
/** Processes that are killed are gone in some milliseconds. */
const killTries = 50;
const killWaitMs = 20;

/**
 * Prepares the trace of another account's program by a root server. Only processes of that account
 * touch its files: root makes, reads and removes none of them. All of them are in one cgroup.
 */
export async function accountPlace(account: Account, procRoot = '/proc'): Promise<TracePlace> {
  const id = randomUUID();
  const cgroup = makeLimitCgroup({ procRoot, name: `trace-${id}`, limitBytes: memoryBytes });
  if ('why' in cgroup) throw notLimited(cgroup.why);
  // Closed to all others: root acts on what stands in an order.
  const orders = await mkdtemp(join(tmpdir(), 'plimsoll-orders-'));
  const folder = join(sharedFolder, `plimsoll-trace-${id}`);
  let count = 0;
  const startAs: StartAs = ({ command, environment, folder: start }) => {
    count += 1;
    const order = {
      account,
      command,
      environment: given(environment),
      folder: start,
      addressSpaceBytes: null,
      cgroupProcs: cgroup.procs,
      endsWithParent: true,
    };
    return { ...becoming(join(orders, String(count)), order), folder: '/' };
  };
  const tool = (...command: readonly string[]): ChildProcess => {
    const environment = accountEnvironment({}, account);
    const asked = startAs({ command, environment, folder: '/' });
    const [program = '', ...words] = asked.command;
    return spawn(program, words, {
      cwd: asked.folder,
      env: { ...asked.environment },
      stdio: ['ignore', 'pipe', 'ignore'],
      timeout: toolMs,
      killSignal: 'SIGKILL',
    });
  };
  const close = async () => {
    await killAll(cgroup.folder);
    await succeeds(tool('rm', '-rf', '--', folder));
    await killAll(cgroup.folder);
    removeCgroup(cgroup.folder);
    await rm(orders, { recursive: true, force: true });
  };
  if (!(await succeeds(tool('mkdir', '-m', '700', '--', folder)))) {
    await close();
    throw noFolder(account);
  }
  return {
    folder,
    startAs,
    has: (file) => succeeds(tool('test', '-f', file)),
    read: (file) => limited(tool('cat', '--', file)),
    close,
  };
}

function succeeds(child: ChildProcess): Promise<boolean> {
  child.stdout?.resume();
  return new Promise((resolve) => {
    child.once('error', () => resolve(false));
    child.once('close', (code) => resolve(code === 0));
  });
}

async function* limited(child: ChildProcess): AsyncGenerator<string> {
  const { stdout } = child;
  if (stdout === null) return;
  // A start that fails ends the output, too.
  child.once('error', () => stdout.destroy());
  let bytes = 0;
  try {
    for await (const text of stdout.setEncoding('utf8')) {
      const part = String(text);
      bytes += Buffer.byteLength(part);
      if (bytes > maxBytes) throw tooLarge();
      yield part;
    }
  } finally {
    child.kill('SIGKILL');
  }
}

/** Also those that left the group of processes. */
async function killAll(cgroup: string): Promise<void> {
  for (let tried = 0; tried < killTries; tried += 1) {
    const pids = cgroupPids(cgroup);
    if (pids.length === 0) return;
    limitOfProcesses(cgroup).killAll();
    for (const pid of pids) kill(pid);
    await wait(killWaitMs);
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}

function given(
  environment: Readonly<Record<string, string | undefined>>,
): Readonly<Record<string, string>> {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment)) {
    if (value !== undefined) kept[name] = value;
  }
  return kept;
}

function notLimited(why: string): Failure {
  return new Failure({
    kind: 'missing',
    code: 'trace-not-limited',
    fact: `A program of another account is traced under a memory limit only, and ${why}.`,
    next: 'Give the memory (--memory 6GiB, or "memoryBytes").',
  });
}

function noFolder({ name, uid }: Account): Failure {
  return new Failure({
    kind: 'missing',
    code: 'trace-not-started',
    fact: `${name ?? `uid ${uid}`} cannot make a folder in ${sharedFolder} on the server.`,
    next: 'Give the memory (--memory 6GiB, or "memoryBytes").',
  });
}

function tooLarge(): Failure {
  return new Failure({
    kind: 'input',
    code: 'trace-too-large',
    fact: `The trace is larger than ${maxBytes / MiB} MiB.`,
    next: 'Give the memory (--memory 6GiB, or "memoryBytes").',
  });
}
