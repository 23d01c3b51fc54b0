import { dirname, isAbsolute, join, resolve } from 'node:path';
import { addedFlags, type OpenSetting } from '../added-flags.js';
import { type KnownFlags, knownFlags } from '../known-flags.js';
import { readText, scriptOf } from '../script.js';
import { accumulationNames, accumulationOf, batchNames, plainName } from '../setting-names.js';
import { compose } from './compose.js';

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
  const script = scriptOf(command, folder);
  // Any other program would take an override for an argument that it does not know.
  if (script === undefined || !/\bhydra\b/.test(script.text)) return undefined;
  const stated = statedIn(script.text);
  const name = optionOf(command, ['--config-name', '-cn']) ?? stated.name;
  if (name === undefined) return undefined;
  const beside = dirname(script.path);
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
  const paths = [...found.keys()].filter((path) => !otherPasses.test(path));
  const setting = (path: string | undefined, placeholder: string): OpenSetting | undefined => {
    const value = found.get(path ?? '');
    if (path === undefined || value === undefined) return undefined;
    return { flag: path, words: [`${path}=${placeholder}`], value };
  };
  const batch = setting(first(paths, batchNames), '{batch_size}');
  const accumulation = setting(first(paths, accumulationNames), '{accumulation}');
  const flag = knownFlags(command)?.batchFlag ?? batch?.flag ?? '';
  return addedFlags(command, batch, accumulation ?? missing(flag));
}

/** The accumulation that a trainer has beside its batch: added where the configuration does not have it. */
function missing(batchFlag: string): OpenSetting | undefined {
  const name = accumulationOf[plainName(batchFlag)];
  if (name === undefined || batchFlag.startsWith('-')) return undefined;
  const flag = [...batchFlag.split('.').slice(0, -1), name].join('.');
  return { flag, words: [`++${flag}={accumulation}`], value: 1 };
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
    const text = readText(join(folder, `${name}.yaml`));
    if (text !== undefined) return text;
  }
  return undefined;
}
