import { dirname, isAbsolute, join, resolve } from 'node:path';
import { readOwnFile } from '../../../files/own-file.js';
import { MiB } from '../../../units/bytes.js';
import { type KnownFlags, knownFlags } from '../known-flags.js';
import { accumulationNames, accumulationOf, batchNames, plainName } from '../setting-names.js';
import { compose } from './compose.js';

/** Scripts and configurations are some kilobytes; a larger file is data. */
const maxBytes = MiB;
/** Where programs keep their configuration, if neither the command nor the script says so. */
const usualFolders = ['conf', 'config', 'configs', '.'];
/** Settings of other passes than training. */
const otherPasses =
  /(?:^|[._])(?:eval|val|valid|validation|test|predict|infer|inference)(?:[._]|$)/;

/**
 * The batch of a program that is configured by Hydra, from the files that its `--config-name`,
 * `--config-path` or `@hydra.main` names, as overrides behind its command; undefined for any other.
 *
 * @example
 * hydraFlags(['python', 'train.py', '--config-name', 'large'], folder)?.command;
 * // ['python', 'train.py', '--config-name', 'large', 'trainer.batch_size={batch_size}']
 */
export function hydraFlags(command: readonly string[], folder: string): KnownFlags | undefined {
  const script = scriptOf(command);
  const text = script === undefined ? undefined : read(resolve(folder, script));
  // Any other program would take an override for an argument that it does not know.
  if (script === undefined || text === undefined || !/\bhydra\b/.test(text)) return undefined;
  const stated = statedIn(text);
  const name = optionOf(command, ['--config-name', '-cn']) ?? stated.name;
  if (name === undefined) return undefined;
  const beside = dirname(resolve(folder, script));
  const path = optionOf(command, ['--config-path', '-cp']) ?? stated.path;
  const more = optionOf(command, ['--config-dir', '-cd']);
  const folders = [
    ...(path === undefined ? usualFolders : [path]).map((one) => resolve(beside, one)),
    ...(more === undefined ? [] : [resolve(folder, more)]),
  ];
  const readConfig = (config: string) => readBelow(folders, config);
  const found = compose(name.replace(/\.ya?ml$/, ''), choicesOf(command, readConfig), readConfig);
  return withOverrides(command, found);
}

function withOverrides(
  command: readonly string[],
  found: ReadonlyMap<string, number>,
): KnownFlags | undefined {
  const own = knownFlags(command);
  const paths = [...found.keys()].filter((path) => !otherPasses.test(path));
  const batchPath = own === undefined ? first(paths, batchNames) : undefined;
  const flag = own?.batchFlag ?? batchPath;
  const batch = own?.batch ?? found.get(batchPath ?? '');
  if (flag === undefined || batch === undefined) return undefined;
  const words = [...(own?.command ?? [...command, `${flag}={batch_size}`])];
  const hasAccumulation = words.some((word) => word.includes('{accumulation}'));
  const accumulationPath = hasAccumulation ? undefined : first(paths, accumulationNames);
  const other = accumulationOf[plainName(flag)];
  if (accumulationPath !== undefined) words.push(`${accumulationPath}={accumulation}`);
  else if (!hasAccumulation && other !== undefined && !flag.startsWith('-')) {
    // It is added where the configuration does not have it.
    words.push(`++${[...flag.split('.').slice(0, -1), other].join('.')}={accumulation}`);
  }
  return {
    command: words,
    batchFlag: flag,
    batch,
    accumulation: found.get(accumulationPath ?? '') ?? own?.accumulation ?? 1,
  };
}

/** Of the first name that is there, one of training before any other. */
function first(paths: readonly string[], names: readonly string[]): string | undefined {
  for (const name of names) {
    const found = paths.filter((path) => name.length > 2 && plainName(path) === name);
    const best = found.find((path) => path.includes('train')) ?? found[0];
    if (best !== undefined) return best;
  }
  return undefined;
}

/** The program that Python runs: `train.py`, or the file of `-m package.train`. */
function scriptOf(command: readonly string[]): string | undefined {
  const at = command.findIndex((word, index) => index > 0 && word.endsWith('.py'));
  const flag = command.indexOf('-m');
  const module = flag === -1 || (at !== -1 && at < flag) ? undefined : command[flag + 1];
  return module === undefined ? command[at] : `${module.replaceAll('.', '/')}.py`;
}

/** What `@hydra.main(...)` of a script says in plain words. */
function statedIn(text: string): { readonly path?: string; readonly name?: string } {
  const given = /hydra\.main\(([^)]*)\)/.exec(text)?.[1] ?? '';
  const word = (key: string) =>
    new RegExp(String.raw`${key}\s*=\s*['"]([^'"]+)['"]`).exec(given)?.[1];
  const [path, name] = [word('config_path'), word('config_name')];
  return { ...(path !== undefined && { path }), ...(name !== undefined && { name }) };
}

function optionOf(command: readonly string[], names: readonly string[]): string | undefined {
  for (const [at, word] of command.entries()) {
    if (names.includes(word)) return command[at + 1];
    const name = names.find((one) => word.startsWith(`${one}=`));
    if (name !== undefined) return word.slice(name.length + 1);
  }
  return undefined;
}

/** Words such as `trainer=large`, where the configuration has such a file. */
function choicesOf(
  command: readonly string[],
  readConfig: (name: string) => string | undefined,
): ReadonlyMap<string, string> {
  return new Map(
    command.flatMap((word): readonly (readonly [string, string])[] => {
      const [, group, choice] = /^\+{0,2}([\w/]+)=([\w./-]+)$/.exec(word) ?? [];
      if (group === undefined || choice === undefined) return [];
      return readConfig(`${group}/${choice}`) === undefined ? [] : [[group, choice]];
    }),
  );
}

function readBelow(folders: readonly string[], name: string): string | undefined {
  if (isAbsolute(name) || name.split('/').includes('..')) return undefined;
  for (const folder of folders) {
    const text = read(join(folder, `${name}.yaml`));
    if (text !== undefined) return text;
  }
  return undefined;
}

function read(path: string): string | undefined {
  return readOwnFile(path, maxBytes);
}
