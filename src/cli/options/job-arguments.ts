import { type JobState, jobStates } from '../../jobs/types.js';
import { parseSeconds } from '../../units/durations.js';
import { badArgument } from './arguments.js';

/** More than any machine has. */
const maxGpus = 1024;
const maxPriority = 1_000_000;
/** As the server has it. */
const mostSlowdown = 1000;
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
  if (times >= 1 && times <= mostSlowdown) return times;
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
