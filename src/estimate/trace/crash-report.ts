import { constants } from 'node:os';

/** How a process came to its end without a word of its own. */
export interface CrashEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A frame of a crash, as Python's faulthandler writes it. */
const frameLine = /^ {2}File "(?<file>[^"\n]{1,4096})", line (?<line>\d{1,9}) in /;
/** A stack has at most 100 frames in such a file; more threads than this tell nothing new. */
const readLines = 5000;
const notOfProgram = /^<|[/\\](?:site-packages|dist-packages|lib[/\\]python[\d.]+)[/\\]/;
/** A process sends these to itself, by a fault in its own code or that of a library. */
const ownFaults: ReadonlySet<string> = new Set([
  'SIGABRT',
  'SIGSEGV',
  'SIGBUS',
  'SIGFPE',
  'SIGILL',
  'SIGSYS',
  'SIGTRAP',
]);
const limits: Readonly<Record<string, string>> = {
  SIGXCPU: 'its limit of processor time (ulimit -t)',
  SIGXFSZ: 'its limit of the size of a file (ulimit -f)',
};

/** The signal that ended a process; a shell, or who starts one as another account, adds 128 to it. */
export function signalOf({ code, signal }: CrashEnd): string | undefined {
  if (signal !== null) return signal;
  return Object.entries(constants.signals).find(([, number]) => number + 128 === code)?.[0];
}

/**
 * The line of the program that ran when it crashed, else undefined. `own` is the folder of our own Python.
 *
 * @example
 * crashLine('Current thread 0x1 (most recent call first):\n  File "train.py", line 7 in <module>\n', '/p');
 * // 'train.py:7'
 */
export function crashLine(report: string, own: string): string | undefined {
  const lines = report.split('\n', readLines);
  const current = lines.findIndex((line) => line.startsWith('Current thread'));
  // The thread that crashed first: the others only wait for it.
  for (const line of [...lines.slice(Math.max(current, 0)), ...lines.slice(0, current)]) {
    const { file, line: number } = frameLine.exec(line)?.groups ?? {};
    if (file !== undefined && !file.startsWith(own) && !notOfProgram.test(file)) {
      return `${file}:${number}`;
    }
  }
  return undefined;
}

/** Explains a signal, and the next step. */
export function signalWords(
  signal: string,
  place: string | undefined,
): { readonly how: string; readonly next: string } {
  const at = place === undefined ? '' : ` at ${place}`;
  if (ownFaults.has(signal)) {
    return {
      how: `crashed by ${signal}${at} and`,
      next:
        'Run it in Python without plimsoll. If it crashes there, too, a library that it uses is at ' +
        'fault; if not, this line cannot be traced: measure it with "plimsoll run -- python ...".',
    };
  }
  if (signal === 'SIGKILL') {
    return {
      how: 'was ended by SIGKILL. The kernel sends it where memory runs out; people and limits do, too. It',
      next: 'Look for "out of memory" in the log of the kernel (dmesg), or trace it where more memory is free.',
    };
  }
  const limit = limits[signal];
  if (limit !== undefined) {
    return { how: `reached ${limit} and was ended by ${signal}. It`, next: 'Raise that limit.' };
  }
  return {
    how: `was ended by ${signal}, which another process sent, or the program itself. It`,
    next: 'Run it again.',
  };
}
