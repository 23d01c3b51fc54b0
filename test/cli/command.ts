import { type ChildProcess, fork, spawn } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type BuildOptions, build } from 'esbuild';
import { afterAll, beforeAll } from 'vitest';
import { madeOnce } from '../support/made-once.js';

const root = fileURLToPath(new URL('../..', import.meta.url));

export interface Ended {
  readonly stdout: string;
  readonly stderr: string;
  /** 128 and its number when it ended by a signal. */
  readonly exitCode: number;
}

export interface Running {
  readonly pid: number | undefined;
  kill(signal: NodeJS.Signals): void;
  closeStdout(): void;
}

export interface RunOptions {
  readonly cwd?: string;
  readonly environment?: Readonly<Record<string, string>>;
  /** Called on each output, with all of it so far. */
  readonly onOutput?: (soFar: { stdout: string; stderr: string }, running: Running) => void;
  /** Called once the process is there. */
  readonly onStart?: (running: Running) => void;
}

export interface Command {
  /** The file to run with Node. */
  readonly path: () => string;
  /** A folder of this test file, gone afterwards. */
  readonly folder: () => string;
  /**
   * Runs the real command to its end. Commands that answer and end share a process, except in `npm run test:all`
   * and where the test wants to see the process.
   */
  run(argv: readonly string[], options?: RunOptions): Promise<Ended>;
}

/** Sends a signal when the output is so, once: some commands end at once when they are asked a second time. */
export function killWhen(
  isSo: (soFar: { stdout: string; stderr: string }) => boolean,
  signal: NodeJS.Signals,
): NonNullable<RunOptions['onOutput']> {
  let isSent = false;
  return (soFar, running) => {
    if (isSent || !isSo(soFar)) return;
    isSent = true;
    running.kill(signal);
  };
}

/** Builds the command as it is now, away from `dist`, so that no test runs yesterday's code. */
export function useCommand(): Command {
  let folder = '';
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'plimsoll-test-'));
    mkdirSync(join(folder, 'bin'));
    cpSync(join(root, 'bin/plimsoll.js'), join(folder, 'bin/plimsoll.js'));
    cpSync(join(root, 'package.json'), join(folder, 'package.json'));
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
    symlinkSync(join(root, 'python'), join(folder, 'python'));
    // A copy: it finds its packages, and what lies beside it, by its own place.
    cpSync(await madeOnce('command', buildCommand), join(folder, 'dist/cli'), { recursive: true });
    mkdirSync(join(folder, 'work'));
  });
  const hosts = commandHosts(() => join(folder, 'dist/cli/main.js'));
  afterAll(() => {
    hosts.end();
    rmSync(folder, { recursive: true, force: true });
  });
  const path = () => join(folder, 'bin/plimsoll.js');
  const work = () => join(folder, 'work');
  return {
    path,
    folder: work,
    run: (argv, options = {}) => {
      // Not the home of the person who runs the tests: answers are kept there from call to call.
      const environment = { PLIMSOLL_HOME: join(folder, 'home'), ...options.environment };
      const started = { cwd: work(), ...options, environment };
      return canShare(argv, options)
        ? hosts.run(argv, started)
        : runToEnd([path(), ...argv], started);
    },
  };
}

async function buildCommand(outdir: string): Promise<void> {
  const options = new URL('../../scripts/esbuild-program.mjs', import.meta.url).href;
  const { program, programs }: { program: BuildOptions; programs: Record<string, string> } =
    await import(options);
  await build({ ...program, absWorkingDir: root, entryPoints: programs, outdir, splitting: true });
}

/** Commands that read, ask a server, or compute: none of them supervises a process or keeps the terminal. */
const answering: ReadonlySet<string> = new Set([
  'cancel',
  'devices',
  'env',
  'estimate',
  'jobs',
  'logs',
  'migrate',
  'optimize',
  'plan',
  'submit',
  'users',
]);

function canShare([name = '']: readonly string[], { onOutput, onStart }: RunOptions): boolean {
  const isWatched = onOutput !== undefined || onStart !== undefined;
  return process.env['PLIMSOLL_TEST_TIER'] !== 'all' && answering.has(name) && !isWatched;
}

/** Processes that have loaded the command. Each runs one call at a time; another starts when all are busy. */
function commandHosts(program: () => string) {
  const idle: ChildProcess[] = [];
  const all: ChildProcess[] = [];
  const started = async (): Promise<ChildProcess> => {
    const host = fork(fileURLToPath(new URL('command-host.mjs', import.meta.url)), [program()], {
      execArgv: [],
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    all.push(host);
    await answerOf(host);
    return host;
  };
  return {
    async run(argv: readonly string[], { cwd, environment }: RunOptions): Promise<Ended> {
      const host = idle.pop() ?? (await started());
      const answer = answerOf(host);
      host.send({ argv, cwd, environment: cleanEnvironment(environment) });
      const ended = await answer;
      if (!isEnded(ended)) throw new Error(`no answer: ${JSON.stringify(ended)}`);
      idle.push(host);
      return ended;
    },
    end() {
      for (const host of all) host.kill('SIGKILL');
    },
  };
}

function isEnded(answer: unknown): answer is Ended {
  return typeof answer === 'object' && answer !== null && 'exitCode' in answer;
}

function answerOf(host: ChildProcess): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const left = (code: number | null) =>
      reject(new Error(`the command ended its process (${code})`));
    host.once('exit', left);
    host.once('message', (answer) => {
      host.off('exit', left);
      resolve(answer);
    });
  });
}

function runToEnd(argv: readonly string[], options: RunOptions): Promise<Ended> {
  const child = spawn(process.execPath, argv, {
    cwd: options.cwd,
    env: cleanEnvironment(options.environment),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  const running: Running = {
    pid: child.pid,
    kill: (signal) => child.kill(signal),
    closeStdout: () => child.stdout.destroy(),
  };
  const heard = () => options.onOutput?.({ stdout, stderr }, running);
  child.stdout.on('data', (data) => {
    stdout += String(data);
    heard();
  });
  child.stderr.on('data', (data) => {
    stderr += String(data);
    heard();
  });
  options.onStart?.(running);
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => {
      const exitCode = code ?? 128 + (signal === null ? 0 : constants.signals[signal]);
      resolve({ stdout, stderr, exitCode });
    });
  });
}

/** The memory of the host is real: it may run short, or grow, while other tests run. */
export const noAlertsOfHost: Readonly<Record<string, string>> = {
  PLIMSOLL_ALERTS_ENABLED_MEMORY_WARNING: 'false',
  PLIMSOLL_ALERTS_ENABLED_MEMORY_CRITICAL: 'false',
  PLIMSOLL_ALERTS_ENABLED_LEAK: 'false',
  PLIMSOLL_ALERTS_ENABLED_OUT_OF_MEMORY_RISK: 'false',
};

/** Without what the person who runs the tests has set for plimsoll. */
export function cleanEnvironment(
  extra: Readonly<Record<string, string>> = {},
): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(process.env)) {
    const ours = name.startsWith('PLIMSOLL_') || name === 'NO_COLOR' || name === 'FORCE_COLOR';
    if (value !== undefined && !ours) kept[name] = value;
  }
  return { ...kept, ...extra };
}
