import { resolve } from 'node:path';
import { addedFlags, type OpenSetting } from './added-flags.js';
import type { KnownFlags } from './known-flags.js';
import { readText, scriptOf } from './script.js';
import { accumulationNames, batchNames, plainName, wholeNumber } from './setting-names.js';

/** Programs have some hundred options. */
const maxOptions = 2000;

/**
 * The batch of a program by the options that its script declares (argparse, click, names of nanoGPT),
 * each with a plain number as its default: what a command does not name, it has from there.
 *
 * @example
 * scriptFlags(['python', 'train.py'], folder)?.command;
 * // ['python', 'train.py', '--batch-size', '{batch_size}', '--grad-accum', '{accumulation}']
 */
export function scriptFlags(command: readonly string[], folder: string): KnownFlags | undefined {
  const script = scriptOf(command, folder);
  if (script === undefined) return undefined;
  const isByName = /open\(['"]configurator\.py['"]\)/.test(script.text);
  const options = isByName
    ? assignedIn([script.text, ...configurations(command, folder)])
    : declaredIn(script.text);
  return addedFlags(
    command,
    first(options, batchNames, '{batch_size}'),
    first(options, accumulationNames, '{accumulation}'),
  );
}

interface Declared {
  readonly flag: string;
  readonly value: number;
  /** Of a program that takes `--name=8` and not `--name 8`. */
  readonly isJoined: boolean;
}

/** Of nanoGPT and what was made from it: each name that the script sets is an option, `batch_size = 12`. */
function assignedIn(texts: readonly string[]): readonly Declared[] {
  return texts
    .flatMap((text) => [...text.matchAll(/^(\w+)[ \t]*=[ \t]*([^#\n]*)/gm)])
    .flatMap(([, name = '', value = '']) => {
      const number = wholeNumber(value.trim()) ?? productOf(value);
      return number === undefined ? [] : [{ flag: `--${name}`, value: number, isJoined: true }];
    })
    .toReversed();
}

/** `5 * 8`: so nanoGPT writes its accumulation. */
function productOf(text: string): number | undefined {
  const factors = text.split('*').map((factor) => wholeNumber(factor.trim()));
  return factors.reduce<number | undefined>(
    (product, factor) =>
      product === undefined || factor === undefined
        ? undefined
        : wholeNumber(String(product * factor)),
    1,
  );
}

/** The Python files behind the script, in their order: each sets names anew. */
function configurations(command: readonly string[], folder: string): readonly string[] {
  const files = command.filter((word, index) => index > 0 && word.endsWith('.py'));
  return files.slice(1, 9).flatMap((file) => readText(resolve(folder, file)) ?? []);
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
      return flag === undefined || value === undefined ? [] : [{ flag, value, isJoined: false }];
    });
}

function first(
  options: readonly Declared[],
  names: readonly string[],
  placeholder: string,
): OpenSetting | undefined {
  for (const name of names) {
    const found = options.find(({ flag }) => plainName(flag) === name);
    if (found === undefined) continue;
    const { flag, value, isJoined } = found;
    return { flag, value, words: isJoined ? [`${flag}=${placeholder}`] : [flag, placeholder] };
  }
  return undefined;
}
