import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { Failure } from '../../failure.js';
import type { Known } from '../../units/known.js';
import { cannotStart } from './cannot-start.js';
import { startDrainer } from './drainer.js';
import { keeperScript, shell, starterScript } from './keeper-scripts.js';
import type { Libc } from './libc.js';
import type { OutputPlan } from './outputs.js';
import { pump } from './pump.js';
import { pumpToLog } from './pump-to-log.js';

export interface LaunchFiles {
  readonly exitCode: string;
  readonly keeperPid: string;
  readonly jobPid: string;
  /** How many the kernel killed, when its cgroup had to be removed before anybody asked. */
  readonly kills: string;
  /** What is to be run as another account. */
  readonly become: string;
  /** What the job prints after our own death, by output. */
  readonly lateOutput: (name: OutputPlan['name']) => string;
}

export interface LaunchOptions {
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
  readonly files: LaunchFiles;
  /** Where a process must write its pid to be limited. */
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
