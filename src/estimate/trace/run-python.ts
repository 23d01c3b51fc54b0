import { spawn } from 'node:child_process';
import { delimiter, join } from 'node:path';
import { killGroup } from '../../device/host/process-list.js';
import { Failure } from '../../failure.js';
import { packageFolder } from '../../files/folders.js';
import { onWorkLimit, secondsOf } from '../work-limit.js';
import type { PythonEnd } from './python-failure.js';
import { splitProgress } from './trace-progress.js';

/** A program with its arguments, variables and folder. */
export interface Start {
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
}

/** What is started so that the program runs as another account. */
export type StartAs = (asked: Start) => Start;

export interface RunPythonOptions {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
  /** Left out, it runs as who we are. */
  readonly startAs?: StartAs | undefined;
  /** Ends it early, with everything it started. */
  readonly signal?: AbortSignal | undefined;
  /** By the clock. Left out: the usual limit, by the time of a processor. */
  readonly timeoutSeconds?: number | undefined;
  /** Told what goes on, for a person who waits, and how far it is, 0 to 1, where that is known. */
  readonly onProgress?: ((text: string, share?: number) => void) | undefined;
  /** What it reads from standard input; left out, that is empty. */
  readonly input?: string | undefined;
  /** Gets what it writes to stderr, as it comes. */
  readonly onOutput?: ((text: string) => void) | undefined;
}

/** A 7B model takes some 15 s; what takes longer than 10 minutes hangs. */
export const defaultTimeoutSeconds = 600;
/** By the clock, on a machine that is busy with other work. */
const busySeconds = 3 * defaultTimeoutSeconds;
/** The error is one line; of what else it prints the end is enough. */
const keptCharacters = 16_384;
/** Where our own package lies. */
export const pythonFolder = join(packageFolder, 'python');

/**
 * Runs Python to its end, and gives back what it said last. `PYTHONPATH` holds our own package, too.
 *
 * @example
 * await runPython('python3', ['-m', 'plimsoll_trace', '--help'], { environment: process.env, folder: '.' });
 */
export function runPython(
  program: string,
  args: readonly string[],
  options: RunPythonOptions,
): Promise<PythonEnd> {
  const { signal, timeoutSeconds = defaultTimeoutSeconds, onProgress, onOutput } = options;
  if (signal?.aborted) return Promise.reject(interrupted());
  return new Promise((resolve, reject) => {
    const asked = {
      command: [program, ...args],
      environment: pythonEnvironment(options.environment, onProgress !== undefined),
      folder: options.folder,
    };
    const { command, environment, folder } = options.startAs?.(asked) ?? asked;
    const [file = '', ...words] = command;
    const child = spawn(file, words, {
      cwd: folder,
      env: { ...environment },
      stdio: ['pipe', 'pipe', 'pipe'],
      // A group of its own, so that what it started can be ended with it.
      detached: process.platform !== 'win32',
      windowsHide: true,
    });
    // One that ends before it has read all of it says why on stderr.
    child.stdin.on('error', () => undefined).end(options.input ?? '');
    let stdout = '';
    let stderr = '';
    let timedOut = false;
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout = (stdout + text).slice(-keptCharacters);
    });
    const keepError = (text: string) => {
      onOutput?.(text);
      stderr = (stderr + text).slice(-keptCharacters);
    };
    child.stderr
      .setEncoding('utf8')
      .on('data', onProgress ? splitProgress(onProgress, keepError) : keepError);
    const kill = () => {
      killGroup(child);
      // What left its group may hold its output open for as long as it likes.
      child.stdout.destroy();
      child.stderr.destroy();
    };
    const limit = { seconds: timeoutSeconds, clockSeconds: options.timeoutSeconds ?? busySeconds };
    const stopLimit = onWorkLimit(
      limit,
      () => secondsOf(child.pid ?? 0),
      () => {
        timedOut = true;
        kill();
      },
    );
    signal?.addEventListener('abort', kill, { once: true });
    const over = () => {
      stopLimit();
      signal?.removeEventListener('abort', kill);
    };
    child.once('error', (error) => {
      over();
      resolve({ notStarted: error.message });
    });
    child.once('close', (code, by) => {
      over();
      if (signal?.aborted) reject(interrupted());
      else if (timedOut) resolve({ timedOutSeconds: timeoutSeconds });
      else resolve({ code, signal: by, stdout, stderr });
    });
  });
}

export function pythonEnvironment(
  environment: Readonly<Record<string, string | undefined>>,
  progress: boolean,
): NodeJS.ProcessEnv {
  // With PLIMSOLL_DEBUG the Python part would show a traceback instead of its error line.
  const { PLIMSOLL_DEBUG: _, PLIMSOLL_PROGRESS: __, PYTHONPATH: others, ...kept } = environment;
  return {
    ...kept,
    ...(progress ? { PLIMSOLL_PROGRESS: '1' } : {}),
    PYTHONPATH: others ? `${pythonFolder}${delimiter}${others}` : pythonFolder,
    // The folder of the package may be read-only, and belongs to someone else.
    PYTHONDONTWRITEBYTECODE: '1',
  };
}

export function interrupted(): Failure {
  return new Failure({
    kind: 'interrupted',
    code: 'interrupted',
    fact: 'The trace was interrupted.',
    next: 'Run it again.',
  });
}
