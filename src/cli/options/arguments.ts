import { limits } from '../../config/schema.js';
import { Failure } from '../../failure.js';
import { type JobState, jobStates } from '../../jobs/types.js';
import { MiB, parseBytes } from '../../units/bytes.js';
import { parseSeconds } from '../../units/durations.js';

/** More than any dimension of a tensor that fits a GPU. */
const largestCount = 2 ** 24;

// Each of these reads the value of one option and names the option in its error.

export function intervalArgument(option: string): (text: string) => number {
  const { leastIntervalSeconds: least, maxIntervalSeconds: most } = limits;
  const next = `It takes seconds from ${least} to ${most}, such as 0.1, or a unit, such as 100ms.`;
  return (text) => {
    const seconds = attempt(() => parseSeconds(text));
    if (seconds === undefined || seconds < least || seconds > most) {
      throw badArgument(option, text, next);
    }
    return seconds;
  };
}

/** 0 means until interrupted. */
export function durationArgument(option: string): (text: string) => number {
  const next = 'It takes seconds, such as 60, or a unit, such as 5m; 0 means until interrupted.';
  return (text) => {
    const seconds = attempt(() => parseSeconds(text));
    if (seconds === undefined || !Number.isFinite(seconds)) throw badArgument(option, text, next);
    return seconds;
  };
}

export function percentArgument(option: string): (text: string) => number {
  const least = limits.leastPercent;
  return (text) => {
    const percent = /^\d+(\.\d+)?%?$/.test(text) ? Number.parseFloat(text) : Number.NaN;
    if (!(percent >= least && percent <= 100)) {
      throw badArgument(option, text, `It takes a percentage from ${least} to 100, such as 85.`);
    }
    return percent;
  };
}

/** A bare number is MiB. */
export function mebibytesArgument(option: string): (text: string) => number {
  const next = 'It takes MiB, such as 100, or a size with its unit, such as 1.5GiB.';
  return (text) => {
    const bare = /^\s*[\d.]+\s*$/.test(text);
    const bytes = attempt(() => parseBytes(bare ? `${text.trim()}MiB` : text));
    if (bytes === undefined) throw badArgument(option, text, next);
    return bytes;
  };
}

export function sizeArgument(option: string): (text: string) => number {
  const next = 'It takes a size such as 24GiB, 24GB, 24g, or bytes.';
  return (text) => {
    const bytes = attempt(() => parseBytes(text));
    if (bytes === undefined || bytes === 0) throw badArgument(option, text, next);
    // Without a unit it would be bytes, which is never meant where there are so few.
    if (bytes < MiB && /^\s*[\d.]+\s*$/.test(text)) {
      throw badArgument(option, text, `Add a unit: ${text.trim()}GiB, or ${text.trim()}MiB.`);
    }
    return bytes;
  };
}

/** One of some words, as they are written. */
export function oneOfArgument<Word extends string>(
  option: string,
  words: readonly Word[],
): (text: string) => Word {
  return (text) => {
    const word = words.find((one) => one === text);
    if (word === undefined) throw badArgument(option, text, `It takes ${words.join(', ')}.`);
    return word;
  };
}

/** A whole number from 1 on. */
export function countArgument(option: string): (text: string) => number {
  return (text) => {
    const number = /^\d{1,8}$/.test(text) ? Number(text) : 0;
    if (number < 1 || number > largestCount) {
      throw badArgument(option, text, `It takes a whole number from 1 to ${largestCount}.`);
    }
    return number;
  };
}

export function pidArgument(option: string): (text: string) => number {
  return (text) => {
    const pid = /^\d{1,10}$/.test(text) ? Number(text) : 0;
    if (pid < 1) throw badArgument(option, text, 'It takes the number of a process, such as 4711.');
    return pid;
  };
}

/** `--devices 0 1`, `--devices 0,1` and the option given twice mean the same. */
export function devicesArgument(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, ...text.split(',').filter((word) => word !== '')];
}

export function badArgument(option: string, text: string, next: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-option',
    fact: `${option} cannot be "${text}".`,
    next,
  });
}

function attempt(read: () => number): number | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof Failure) return undefined;
    throw error;
  }
}

export function portArgument(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (port <= 65_535) return port;
  throw badArgument('--port', text, 'It takes a number from 0 (any free port) to 65535.');
}

export function socketArgument(text: string): string {
  if (text !== '' && !text.includes('\0')) return text;
  throw badArgument('--socket', text, 'It takes a path, such as /srv/plimsoll/server.sock.');
}

export function hostsArgument(text: string, before: readonly string[] = []): readonly string[] {
  if (/^[\w.:[\]-]{1,255}$/.test(text)) return [...before, text];
  throw badArgument('--allow-host', text, 'It takes a name, such as gpu.example.org.');
}

/** More than any machine has. */
const maxGpus = 1024;
const maxPriority = 1_000_000;
/** As the server has it. */
const maxSlowdown = 1000;
/** A year. */
const longestSeconds = 366 * 86_400;
/** As the server has it. */
const longestTraceSeconds = 3600;

// Each of these reads the value of one option and names the option in its error.

export function priorityArgument(text: string): number {
  const priority = /^[+-]?\d{1,7}$/.test(text) ? Number(text) : Number.NaN;
  if (Math.abs(priority) <= maxPriority) return priority;
  throw badArgument('--priority', text, 'It takes a whole number, such as 10 or -5.');
}

export function gpusArgument(text: string): number {
  const gpus = /^\d{1,4}$/.test(text) ? Number(text) : Number.NaN;
  if (gpus <= maxGpus) return gpus;
  throw badArgument('--gpus', text, 'It takes a number of GPUs, such as 2; 0 is the host.');
}

/** `--elastic` alone is `true`: the usual slow-down. */
export function slowdownArgument(text: string): number {
  const times = /^\d{1,4}(\.\d{1,3})?$/.test(text) ? Number(text) : Number.NaN;
  if (times >= 1 && times <= maxSlowdown) return times;
  throw badArgument('--elastic', text, 'It takes a number from 1 on, such as 1.5.');
}

export function waitArgument(text: string): number {
  try {
    const seconds = parseSeconds(text);
    if (seconds > 0 && seconds <= longestSeconds) return seconds;
  } catch {
    // Told below, with the name of the option.
  }
  throw badArgument('--timeout', text, 'It takes seconds, such as 600, or a unit, such as 10m.');
}

export function traceArgument(text: string): number {
  try {
    const seconds = parseSeconds(text);
    if (seconds >= 0 && seconds <= longestTraceSeconds) return seconds;
  } catch {
    // Told below, with the name of the option.
  }
  const next = 'It takes seconds up to an hour, such as 60 or 5m; 0 leaves the trace out.';
  throw badArgument('--estimate-timeout', text, next);
}

/** `--state waiting,running` and the option given twice mean the same. */
export function statesArgument(
  text: string,
  before: readonly JobState[] = [],
): readonly JobState[] {
  const states = text.split(',').map((word) => {
    const state = jobStates.find((one) => one === word.trim());
    if (state === undefined) {
      throw badArgument('--state', word, `It takes ${jobStates.join(', ')}.`);
    }
    return state;
  });
  return [...before, ...states];
}

/** 0 is none of what is there already. */
export function tailArgument(text: string): number {
  const lines = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (lines >= 0) return lines;
  throw badArgument('--tail', text, 'It takes a number of lines, such as 100.');
}

/** Ids are in addresses and on terminals: what is none is told at once. */
export function idArgument(text: string): string {
  if (/^[\w.:-]{1,100}$/.test(text)) return text;
  throw badArgument('The id of a job', text, '"plimsoll jobs" lists the jobs with their ids.');
}
