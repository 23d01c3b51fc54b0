import {
  accumulationNames,
  accumulationOf,
  batchNames,
  plainName,
  wholeNumber,
} from './setting-names.js';

/** A command whose batch is set by an option of the program. */
export interface KnownFlags {
  /** With `{batch_size}`, and `{accumulation}` where the program takes it, in place of the numbers. */
  readonly command: readonly string[];
  /** As it was typed: `--batch-size`, `trainer.batch_size`. */
  readonly batchFlag: string;
  readonly batch: number;
  readonly accumulation: number;
}

interface Found {
  /** The word that holds the number, and what stands before the number in it. */
  readonly at: number;
  readonly before: string;
  readonly flag: string;
  readonly name: string;
  readonly value: number;
}

/**
 * The options by which a usual training program is told its batch; undefined where there are none.
 *
 * @example
 * knownFlags(['python', 'train.py', '--batch-size', '8'])?.command;
 * // ['python', 'train.py', '--batch-size', '{batch_size}']
 */
export function knownFlags(command: readonly string[]): KnownFlags | undefined {
  const all = command.flatMap((_, at) => (at === 0 ? [] : foundAt(command, at)));
  const batch = best(all, batchNames);
  if (batch === undefined) return undefined;
  const accumulation = best(all, accumulationNames);
  const words = [...command];
  words[batch.at] = `${batch.before}{batch_size}`;
  if (accumulation !== undefined) words[accumulation.at] = `${accumulation.before}{accumulation}`;
  const other = accumulationOf[batch.name];
  const isOption = batch.flag.startsWith('--');
  if (accumulation === undefined && other !== undefined && isOption) {
    words.push(`--${other}`, '{accumulation}');
  }
  return {
    command: words,
    batchFlag: batch.flag,
    batch: batch.value,
    accumulation: accumulation?.value ?? 1,
  };
}

/** The first name of the list that a command has; of an option that is there twice, the last counts. */
function best(all: readonly Found[], names: readonly string[]): Found | undefined {
  for (const name of names) {
    const found = all.findLast((one) => one.name === name);
    if (found !== undefined) return found;
  }
  return undefined;
}

function foundAt(command: readonly string[], at: number): readonly Found[] {
  const word = command[at] ?? '';
  const equals = word.indexOf('=');
  const flag = equals === -1 ? word : word.slice(0, equals);
  const name = plainName(flag);
  const isOption = /^--?[a-z]/i.test(flag);
  // `-b` means something else to most tools; `b=2` and `bs 4` mean nothing sure.
  if (name.length <= 2 && !(isOption && isScript(command, at))) return [];
  if (equals !== -1) {
    const value = wholeNumber(word.slice(equals + 1));
    return value === undefined ? [] : [{ at, before: `${flag}=`, flag, name, value }];
  }
  const value = isOption ? wholeNumber(command[at + 1] ?? '') : undefined;
  return value === undefined ? [] : [{ at: at + 1, before: '', flag, name, value }];
}

/** Whether a Python program, and not its launcher, reads this word. */
function isScript(command: readonly string[], at: number): boolean {
  return command.slice(0, at).some((word) => word.endsWith('.py') || word === '-m');
}
