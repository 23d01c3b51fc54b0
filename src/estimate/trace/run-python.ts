import { spawn } from 'node:child_process';
import { basename, delimiter, dirname, join } from 'node:path';
import { killGroup } from '../../device/host/process-list.js';
import { Failure } from '../../failure.js';
import { packageFolder } from '../../files/folders.js';
import { onWorkLimit, secondsOf } from '../work-limit.js';
import type { PythonEnd } from './python-failure.js';
import { splitProgress } from './trace-progress.js';

/** A program with its arguments, variables and folder. */
interface Start {
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
}

/** Changes a start so that the program runs as another account. */
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
  /** Its standard input; empty if absent. */
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
/** The folder of our own Python package. */
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

/** A Python program as a person types it, taken apart. */
interface ProgramCommand {
  /** The Python that runs it. */
  readonly python: string;
  /** Options of Python itself, before the program. */
  readonly flags: readonly string[];
  /** `train.py ...`, or `-m package ...`. */
  readonly program: readonly string[];
}

const pythonName = /^(python|pypy)(\d+(\.\d+)*)?(\.exe)?$/i;
/** Launchers of several processes, and the modules that they run. */
const launchers: readonly { readonly words: readonly string[]; readonly module: string }[] = [
  { words: ['torchrun'], module: 'torch.distributed.run' },
  { words: ['accelerate', 'launch'], module: 'accelerate.commands.launch' },
];
/** Options of Python that take a value in the next word. */
const withValue = new Set(['-W', '-X', '--check-hash-based-pycs']);

/**
 * Takes `python -u train.py --epochs 3` apart, and the same behind `torchrun` or `accelerate launch`.
 * What is no Python program is a `Failure`.
 *
 * @example
 * programCommand(['python', '-m', 'pkg.train']); // { python: 'python', flags: [], program: ['-m', 'pkg.train'] }
 */
export function programCommand(words: readonly string[]): ProgramCommand {
  const [python = '', ...rest] = withoutLauncher(words);
  if (!pythonName.test(basename(python))) throw notPython(python);
  let at = 0;
  while (rest[at]?.startsWith('-') && rest[at] !== '-m' && rest[at] !== '-c' && rest[at] !== '-') {
    at += withValue.has(rest[at] ?? '') ? 2 : 1;
  }
  const program = rest.slice(at);
  const start = program[0];
  if (start === undefined || start === '-c' || start === '-') throw noProgram(start);
  if (start === '-m' && program[1] === undefined) throw noProgram('-m');
  return { python, flags: rest.slice(0, at), program };
}

/** A launcher is a script of the Python beside it. */
function withoutLauncher(words: readonly string[]): readonly string[] {
  const [first = '', ...rest] = words;
  for (const { words: launcher, module } of launchers) {
    const [name, ...more] = launcher;
    if (basename(first) !== name || more.some((word, at) => rest[at] !== word)) continue;
    const python = first.includes('/') ? join(dirname(first), 'python') : 'python';
    return [python, '-m', module, ...rest.slice(more.length)];
  }
  return words;
}

function notPython(word: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'not-python',
    fact: `"${word}" is not a Python program, so it cannot be traced.`,
    next: 'Write plimsoll estimate -- python train.py, or measure it with plimsoll run.',
  });
}

function noProgram(start: string | undefined): Failure {
  const fact =
    start === '-c' || start === '-'
      ? 'A program that is typed in, or read from standard input, cannot be traced.'
      : 'The command names no Python file and no module.';
  return new Failure({
    kind: 'input',
    code: 'no-program',
    fact,
    next: 'Name a file or a module: python train.py, or python -m package.',
  });
}
