import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, constants, openSync, read, statSync, writeSync } from 'node:fs';
import { Failure } from '../../failure.js';
import type { Known } from '../../units/known.js';
import { lockLog } from '../log/log-limit.js';
import { drainerScript, keeperScript, shell, starterScript } from './keeper-scripts.js';
import type { Ends, KernelPipes, Libc } from './libc.js';
import type { OutputPlan, RawOutput } from './outputs.js';

export interface LaunchFiles {
  readonly exitCode: string;
  readonly keeperPid: string;
  readonly jobPid: string;
  /** How many the kernel killed, when its cgroup had to be removed before anybody asked. */
  readonly kills: string;
  /** The program to run as another account. */
  readonly become: string;
  /** Returns the output that the job printed after our own death. */
  readonly lateOutput: (name: OutputPlan['name']) => string;
}

export interface LaunchOptions {
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
  readonly files: LaunchFiles;
  /** The file to write a process's pid into, to be limited. */
  readonly cgroupProcs: string | undefined;
  readonly addressSpaceBytes: number | undefined;
  readonly outputs: readonly OutputPlan[];
  /** Undefined where it could not be loaded: then the job gets our own outputs as they are. */
  readonly libc: Libc | undefined;
  readonly onOutput: (bytes: Uint8Array) => void;
}

/** A job that runs. */
export interface LaunchedProcess {
  /** Undefined when it could not even be started. */
  readonly pid: Promise<number | undefined>;
  readonly keeperPid: number | undefined;
  /**
   * How it ended: 128 and the number for a signal; `unknown` when it could not be seen. Rejects with a
   * `Failure` when it could not be started.
   */
  readonly ended: Promise<Known<number>>;
  /** After all of its output got out; call it when the job and what it left are gone. */
  drained(timeoutMs: number): Promise<void>;
  /** The size of our terminal changed. */
  resize(): void;
}

/** Starts a command in our own process group, with its output passing through us. */
export function launch(options: LaunchOptions): LaunchedProcess {
  const { files, cgroupProcs, addressSpaceBytes } = options;
  // With their drainers, before the job is there: from its first word on, its output has a reader
  // that outlives us.
  const methods = options.libc === undefined ? [] : launchMethods(options.libc, options);
  const fdFor = (name: 'stdout' | 'stderr'): number | 'inherit' =>
    methods.find((method) => method.plan.name === name || method.plan.name === 'both')?.writeFd ??
    'inherit';
  const space = addressSpaceBytes === undefined ? '' : String(Math.floor(addressSpaceBytes / 1024));
  const words = [files.jobPid, cgroupProcs ?? '', space, ...options.command];
  const keeper = spawned(options, [fdFor('stdout'), fdFor('stderr')], words);
  for (const { writeFd } of methods) closeSync(writeFd);
  const pumps = methods.map((method) => method.run(options));
  return {
    keeperPid: keeper instanceof Failure ? undefined : keeper.pid,
    pid: keeper instanceof Failure ? Promise.resolve(undefined) : firstLine(keeper.stdio[3]),
    ended: endOf(keeper, options.folder),
    async drained(timeoutMs) {
      const timer = setTimeout(() => methods.forEach((method) => method.wake()), timeoutMs);
      await Promise.all(pumps);
      clearTimeout(timer);
    },
    resize() {
      for (const method of methods) method.resize();
    },
  };
}

/** The keeper, which starts the job; or why the system does not even try. */
function spawned(
  { files, folder, environment }: LaunchOptions,
  [stdout, stderr]: readonly [number | 'inherit', number | 'inherit'],
  words: readonly string[],
): ChildProcess | Failure {
  const own = ['plimsoll-keeper', files.exitCode, files.keeperPid, starterScript, 'plimsoll-job'];
  try {
    return spawn(shell, ['-c', keeperScript, ...own, ...words], {
      cwd: folder,
      env: environment,
      stdio: ['inherit', stdout, stderr, 'pipe'],
    });
  } catch (error) {
    return cannotStart(error, folder);
  }
}

function endOf(keeper: ChildProcess | Failure, folder: string): Promise<Known<number>> {
  if (keeper instanceof Failure) return Promise.reject(keeper);
  return new Promise((resolve, reject) => {
    keeper.once('error', (error) => reject(cannotStart(error, folder)));
    // One that was killed says nothing about the job.
    keeper.once('exit', (code) => resolve(code ?? 'unknown'));
  });
}

interface LaunchMethod {
  readonly plan: OutputPlan;
  readonly writeFd: number;
  run(options: LaunchOptions): Promise<void>;
  /** Ends a read that waits for an output which something we cannot reach holds open. */
  wake(): void;
  resize(): void;
}

function launchMethods(libc: Libc, options: LaunchOptions): readonly LaunchMethod[] {
  return options.outputs.map((plan) => {
    const ends = plan.as === 'terminal' ? libc.terminal() : libc.pipe();
    let isOpen = true;
    const resize = () => {
      const size = plan.as === 'terminal' && isOpen ? plan.to.size() : undefined;
      if (size !== undefined) libc.setWindow(ends.readFd, size);
    };
    resize();
    const drainer = startDrainer({
      readFd: ends.readFd,
      outFd: plan.to.fd,
      logPath: options.files.lateOutput(plan.name),
    });
    return {
      plan,
      writeFd: ends.writeFd,
      resize,
      async run({ onOutput }) {
        try {
          const seen = (bytes: Uint8Array) => {
            if (!isOpen) throw new Error('woken');
            onOutput(bytes);
          };
          const { pipes } = libc;
          if (plan.to.moved !== undefined && plan.as === 'pipe' && pipes !== undefined) {
            await pumpToLog({
              readFd: ends.readFd,
              log: plan.to,
              scratch: libc.pipe(),
              pipes,
              seen,
            });
          } else {
            await pump(ends.readFd, async (bytes) => {
              seen(bytes);
              await plan.to.write(bytes);
            });
          }
        } catch {
          // Our reader left (`| head`). With both reading ends closed the job learns it the same way.
        } finally {
          isOpen = false;
          drainer.release();
        }
      },
      wake() {
        if (!isOpen) return;
        try {
          const { O_WRONLY, O_NONBLOCK, O_NOCTTY } = constants;
          const fd = openSync(ends.path, O_WRONLY | O_NONBLOCK | O_NOCTTY);
          isOpen = false;
          writeSync(fd, '\0');
          closeSync(fd);
        } catch {
          // It ended in this very moment; or this system cannot, and its last holder will end it.
        }
      },
    };
  });
}

/** The pid that the starter tells; undefined when it ended before. */
function firstLine(stream: ChildProcess['stdio'][3]): Promise<number | undefined> {
  return new Promise((resolve) => {
    let text = '';
    stream?.on('data', (chunk) => {
      text += String(chunk);
      if (text.includes('\n')) resolve(Number.parseInt(text, 10));
    });
    stream?.on('close', () => resolve(undefined));
    stream?.on('error', () => resolve(undefined));
  });
}

/** Next steps for errors of a start that have a known cause. */
const nextSteps: Readonly<Record<string, string>> = {
  E2BIG: 'Its arguments and its environment are too long for this system: pass less of them.',
  EAGAIN: 'This user has as many processes as it may: end some, or raise "ulimit -u".',
  ENOMEM: 'The machine has no memory left to start it: end something, and try again.',
  EMFILE: 'Too many files are open: raise "ulimit -n".',
};

/** Why a program could not even be started. */
function cannotStart(error: unknown, folder: string): Failure {
  if (!isFolder(folder)) {
    return new Failure({
      kind: 'input',
      code: 'no-such-folder',
      fact: `The folder ${folder}, in which the program should start, no longer exists.`,
      next: 'Create it again, or choose another folder, and start the program again.',
      cause: error,
    });
  }
  const { message, code } = { message: String(error), code: '', ...plain(error) };
  return new Failure({
    kind: 'missing',
    code: 'cannot-start',
    fact: `The program could not be started: ${message}.`,
    next: nextSteps[code] ?? `Check that its folder ${folder} can be entered, and try again.`,
    cause: error,
  });
}

function plain(error: unknown): { message?: string; code?: string } {
  if (!(error instanceof Error)) return {};
  return { message: error.message, code: 'code' in error ? String(error.code) : '' };
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

/** Stands by to take over the job's output if we are killed. */
interface Drainer {
  readonly pid: number | undefined;
  /** No longer needed. */
  release(): void;
}

/** One that is itself killed is replaced, so that the job is never without. */
function startDrainer(options: {
  readonly readFd: number;
  readonly outFd: number;
  readonly logPath: string;
}): Drainer {
  let released = false;
  let child: ChildProcess;
  const start = () => {
    child = spawn(shell, ['-c', drainerScript, 'plimsoll-drainer', options.logPath], {
      stdio: ['ignore', 'ignore', 'ignore', 'pipe', options.readFd, options.outFd],
    });
    // It ends with us: a line that is cut at its end is no error.
    child.stdio[3]?.on('error', () => {});
    child.once('error', () => {});
    child.once('exit', () => {
      if (!released) start();
    });
    child.unref();
  };
  start();
  return {
    get pid() {
      return child.pid;
    },
    release() {
      if (released) return;
      released = true;
      const line = child.stdio[3];
      if (line && 'end' in line) line.end('done\n');
    },
  };
}

/**
 * Brings what comes out of a pipe into a log so that a kill at any moment loses nothing and doubles
 * nothing: it is looked at in a copy, and then moved by the kernel, which takes it out of the pipe as it
 * writes it. What was not moved is found in the pipe by the drainer.
 *
 * The kernel moves to a place, not to the end; so everyone who adds to the log takes its lock.
 */
export async function pumpToLog(options: {
  readonly readFd: number;
  readonly log: RawOutput;
  readonly scratch: Ends;
  readonly pipes: KernelPipes;
  /** Shown all of it, before it is in the log. */
  readonly seen: (bytes: Uint8Array) => void;
}): Promise<void> {
  const { readFd, log, scratch, pipes, seen } = options;
  const buffer = Buffer.allocUnsafeSlow(chunkBytes);
  const file = openedAgain(log.fd);
  if (file === undefined) {
    for (const fd of [scratch.readFd, scratch.writeFd]) closeSync(fd);
    return pump(readFd, async (bytes) => {
      seen(bytes);
      await log.write(bytes);
    });
  }
  try {
    for (;;) {
      const count = await pipes.copy(readFd, scratch.writeFd, chunkBytes);
      if (count < 0) throw new Error('tee failed');
      if (count === 0) return;
      await readExactly(scratch.readFd, buffer, count);
      seen(buffer.subarray(0, count));
      await log.noteGap?.();
      const moved = Math.max(0, await moveToEnd(pipes, readFd, file, count));
      log.moved?.(buffer.subarray(0, moved));
      if (moved === count) continue;
      // A full disk, or a file system that cannot: the log decides what becomes of the rest.
      await readExactly(readFd, buffer, count - moved);
      await log.write(buffer.subarray(0, count - moved));
    }
  } finally {
    for (const fd of [readFd, scratch.readFd, scratch.writeFd, file]) closeSync(fd);
  }
}

/** The same file, not open for appending; undefined where it cannot be opened, as a socket. */
function openedAgain(fd: number): number | undefined {
  try {
    return openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY);
  } catch {
    return undefined;
  }
}

async function moveToEnd(
  pipes: KernelPipes,
  readFd: number,
  file: number,
  count: number,
): Promise<number> {
  lockLog(pipes, file);
  try {
    return await pipes.moveToEnd(readFd, file, count);
  } finally {
    pipes.unlock(file);
  }
}

/** So much is there. */
async function readExactly(fd: number, buffer: Buffer, count: number): Promise<void> {
  for (let at = 0; at < count; ) {
    const got = await readSome(fd, buffer.subarray(at, count));
    if (got === 0) return;
    at += got;
  }
}

/** A pipe holds as much on Linux: more would never come at once. */
const chunkBytes = 64 * 1024;

/**
 * Copies what comes out of a descriptor, one piece after the other, until its end. It reads no
 * faster than `sink` takes it, so a slow reader slows the program as it would without us.
 *
 * The descriptor stays in blocking mode: it is shared with the drainer, which cannot do without.
 */
async function pump(readFd: number, sink: (bytes: Uint8Array) => Promise<void>): Promise<void> {
  const buffer = Buffer.allocUnsafeSlow(chunkBytes);
  try {
    for (;;) {
      const count = await readSome(readFd, buffer);
      if (count === 0) return;
      await sink(buffer.subarray(0, count));
    }
  } finally {
    closeSync(readFd);
  }
}

function readSome(fd: number, buffer: Buffer): Promise<number> {
  return new Promise((resolve, reject) => {
    read(fd, buffer, 0, buffer.length, null, (error, count) => {
      // A terminal whose other side is closed says EIO where a pipe says nothing more comes.
      if (error === null) resolve(count);
      else if (error.code === 'EIO') resolve(0);
      else reject(error);
    });
  });
}
