import { Failure } from '../../failure.js';
import { parseBytes } from '../../units/bytes.js';
import { isKnown, type Known } from '../../units/known.js';

/** One line of a list: a command, and what it states. */
export interface PackedJob {
  /** Counted from 1. */
  readonly line: number;
  /** As it was written. */
  readonly text: string;
  readonly command: readonly string[];
  readonly memoryBytes?: number;
  readonly gpus?: number;
  readonly batch?: number;
  readonly name?: string;
}

/** Lists are written by hand or by a script. */
const maxJobs = 100_000;

/**
 * A list of jobs: one command in a line, with options of `submit` before `--`; empty lines and those
 * that begin with # count for nothing.
 *
 * @example
 * readPackList('--memory 6GiB -- python train.py --seed 1\npython eval.py', 'jobs.txt');
 */
export function readPackList(text: string, file: string): readonly PackedJob[] {
  const jobs = text.split('\n').flatMap((line, index) => {
    const trimmed = line.trim();
    if (trimmed === '' || trimmed.startsWith('#')) return [];
    return [readLine(trimmed, index + 1, file)];
  });
  if (jobs.length > maxJobs) throw bad(file, maxJobs + 1, `it has more than ${maxJobs} jobs`);
  if (jobs.length > 0) return jobs;
  throw new Failure({
    kind: 'input',
    code: 'bad-list',
    fact: `${file} has no commands.`,
    next: 'Write one command in each line, such as: --memory 6GiB -- python train.py',
  });
}

function readLine(text: string, line: number, file: string): PackedJob {
  const words = splitCommand(text);
  if (words === undefined) throw bad(file, line, 'a quote is not closed');
  const at = words[0]?.startsWith('--') ? words.indexOf('--') : -1;
  if (words[0]?.startsWith('--') && at === -1)
    throw bad(file, line, 'there is no -- after its options');
  const command = words.slice(at + 1);
  if (command.length === 0) throw bad(file, line, 'it has no command');
  const options = optionsOf(words.slice(0, Math.max(0, at)), (why) => bad(file, line, why));
  return { line, text, command, ...options };
}

type Options = Omit<PackedJob, 'line' | 'text' | 'command'>;

function optionsOf(words: readonly string[], fail: (why: string) => Failure): Options {
  const options: { -readonly [Key in keyof Options]: Options[Key] } = {};
  for (let index = 0; index < words.length; index++) {
    const word = words[index] ?? '';
    const [, name = '', joined] = /^--([a-z-]+)(?:=(.*))?$/s.exec(word) ?? [];
    const value = joined ?? words[++index];
    if (name === '' || value === undefined) throw fail(`"${word}" is not an option with a value`);
    if (name === 'memory') options.memoryBytes = sizeOf(value, fail);
    else if (name === 'gpus') options.gpus = countOf(value, 0, fail);
    else if (name === 'batch') options.batch = countOf(value, 1, fail);
    else if (name === 'name') options.name = value;
    else throw fail(`--${name} is not known here; known are --memory, --gpus, --batch, --name`);
  }
  return options;
}

function sizeOf(text: string, fail: (why: string) => Failure): number {
  try {
    return parseBytes(text);
  } catch {
    throw fail(`"${text.slice(0, 40)}" is not a size such as 6GiB`);
  }
}

function countOf(text: string, least: number, fail: (why: string) => Failure): number {
  const count = /^\d{1,9}$/.test(text) ? Number(text) : -1;
  if (count >= least) return count;
  throw fail(`"${text.slice(0, 40)}" is not a whole number from ${least} on`);
}

/** Words as a shell splits them: quotes and backslashes count, nothing is replaced. */
export function splitCommand(text: string): readonly string[] | undefined {
  const words: string[] = [];
  let word: string | undefined;
  let quote = '';
  for (let index = 0; index < text.length; index++) {
    const character = text[index] ?? '';
    if (quote !== '') {
      if (character === quote) quote = '';
      else if (character === '\\' && quote === '"' && /["\\$`]/.test(text[index + 1] ?? '')) {
        word = `${word ?? ''}${text[++index]}`;
      } else word = `${word ?? ''}${character}`;
    } else if (character === '"' || character === "'") {
      quote = character;
      word ??= '';
    } else if (character === '\\') {
      word = `${word ?? ''}${text[++index] ?? ''}`;
    } else if (/\s/.test(character)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else word = `${word ?? ''}${character}`;
  }
  if (quote !== '') return undefined;
  return word === undefined ? words : [...words, word];
}

function bad(file: string, line: number, why: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-list',
    fact: `${file}:${line}: ${why}.`,
    next: 'Write it as: --memory 6GiB -- python train.py',
  });
}

/** A job that has not started yet. */
interface PackedWaiting {
  readonly id: string;
  /** How long earlier runs of the same command took. */
  readonly expectedSeconds: Known<number>;
}

/** So long before the end nothing is started whose time is unknown, and what runs is asked to end. */
export const endMarginSeconds = 60;

/**
 * The waiting jobs that would not end before the allocation does: they are not started. A job whose
 * time is unknown counts as long as the longest that was seen in this list.
 *
 * @example
 * outOfTime([{ id: '7', expectedSeconds: 600 }], 300, 'unknown'); // ['7']
 */
export function outOfTime(
  waiting: readonly PackedWaiting[],
  secondsLeft: Known<number>,
  longestSeconds: Known<number>,
): readonly string[] {
  if (!isKnown(secondsLeft)) return [];
  const usable = secondsLeft - endMarginSeconds;
  return waiting
    .filter(({ expectedSeconds }) => {
      const expected = isKnown(expectedSeconds) ? expectedSeconds : longestSeconds;
      return usable <= 0 || (isKnown(expected) && expected > usable);
    })
    .map(({ id }) => id);
}
