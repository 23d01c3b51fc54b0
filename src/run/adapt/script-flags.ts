import { addedFlags, type OpenSetting } from './added-flags.js';
import type { KnownFlags } from './known-flags.js';
import { scriptOf } from './script.js';
import { accumulationNames, batchNames, plainName, wholeNumber } from './setting-names.js';

/** Programs have some hundred options. */
const maxOptions = 2000;

/**
 * The batch of a program by the options that its script declares (argparse, click), each with a plain
 * number as its default: what a command does not name, it has from there.
 *
 * @example
 * scriptFlags(['python', 'train.py'], folder)?.command;
 * // ['python', 'train.py', '--batch-size', '{batch_size}', '--grad-accum', '{accumulation}']
 */
export function scriptFlags(command: readonly string[], folder: string): KnownFlags | undefined {
  const options = declaredIn(scriptOf(command, folder)?.text ?? '');
  return addedFlags(
    command,
    first(options, batchNames, '{batch_size}'),
    first(options, accumulationNames, '{accumulation}'),
  );
}

interface Declared {
  readonly flag: string;
  readonly value: number;
}

/** `parser.add_argument("-b", "--batch-size", type=int, default=64)`. */
function declaredIn(text: string): readonly Declared[] {
  return text
    .split(/\b(?:add_argument|option)\(/, maxOptions)
    .slice(1)
    .flatMap((rest) => {
      const call = rest.split(/\)\s*(?:\n|$)/, 1)[0] ?? '';
      const names = /^\s*(?:['"]-{1,2}[\w-]+['"]\s*,\s*)+/.exec(call)?.[0] ?? '';
      const flag = /--[\w-]+/.exec(names)?.[0];
      const value = wholeNumber(/\bdefault\s*=\s*(\d+)\b(?!\s*[.*/+])/.exec(call)?.[1] ?? '');
      return flag === undefined || value === undefined ? [] : [{ flag, value }];
    });
}

function first(
  options: readonly Declared[],
  names: readonly string[],
  placeholder: string,
): OpenSetting | undefined {
  for (const name of names) {
    const found = options.find(({ flag }) => plainName(flag) === name);
    if (found !== undefined) return { ...found, words: [found.flag, placeholder] };
  }
  return undefined;
}
