import { dirname, isAbsolute, join, resolve } from 'node:path';
import { readOwnFile } from '../../files/own-file.js';
import { MiB } from '../../units/bytes.js';
import {
  accumulationNames,
  accumulationOf,
  batchNames,
  type KnownFlags,
  knownFlags,
  plainName,
  wholeNumber,
} from './known-flags.js';

/** Commands with settings that they have from elsewhere. */
export interface OtherFlags {
  /** By the configuration of Hydra. */
  readonly hydra?: KnownFlags | undefined;
  /** By the options that the script declares. */
  readonly script?: KnownFlags | undefined;
}

export function otherFlags(command: readonly string[], folder: string): OtherFlags {
  return { hydra: hydraFlags(command, folder), script: scriptFlags(command, folder) };
}

/**
 * By which options a program is told its batch. What its script declares counts only where no file sets
 * a batch: the program would take what the file says.
 */
export function flagsOf(
  command: readonly string[],
  hasConfig: boolean,
  { hydra, script }: OtherFlags,
): KnownFlags | undefined {
  return hydra ?? (hasConfig ? undefined : script) ?? knownFlags(command);
}

/** The usual folders of a configuration, if neither the command nor the script names one. */
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

/** Reads the plain arguments of a script's `@hydra.main(...)`. */
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

/** Scripts and configurations are some kilobytes; a larger file is data. */
const maxBytes = MiB;

/** The Python program that a command starts, and its text. */
interface Script {
  readonly path: string;
  readonly text: string;
}

/**
 * The program that Python runs: `train.py`, or the file of `-m package.train`; undefined where it
 * cannot be read.
 */
function scriptOf(command: readonly string[], folder: string): Script | undefined {
  const at = command.findIndex((word, index) => index > 0 && word.endsWith('.py'));
  const flag = command.indexOf('-m');
  const module = flag === -1 || (at !== -1 && at < flag) ? undefined : command[flag + 1];
  const name = module === undefined ? command[at] : `${module.replaceAll('.', '/')}.py`;
  const path = name === undefined ? undefined : resolve(folder, name);
  const text = path === undefined ? undefined : readText(path);
  return path === undefined || text === undefined ? undefined : { path, text };
}

/** Undefined where it cannot be read. */
function readText(path: string): string | undefined {
  return readOwnFile(path, maxBytes);
}

/** The text of a configuration by its path below the configuration folder, without `.yaml`. */
type ReadConfig = (name: string) => string | undefined;

/** A configuration is made of some ten files; one that has more is not followed to its end. */
const maxFiles = 64;

interface Part {
  readonly group: string;
  readonly choice: string;
  readonly package: readonly string[];
  /** `choice`: one of a group; `override`: replaces an earlier choice; `file`: a config named directly. */
  readonly kind: 'choice' | 'override' | 'file';
}

/**
 * The whole numbers of a configuration of Hydra, by their paths: its file, and what its lists `defaults`
 * name. `choices` are those of the command line.
 *
 * @example
 * compose('config', new Map([['trainer', 'small']]), read).get('trainer.batch_size'); // 8
 */
export function compose(
  name: string,
  choices: ReadonlyMap<string, string>,
  read: ReadConfig,
): ReadonlyMap<string, number> {
  const chosen = new Map(choices);
  const overrides = new Map<string, string>();
  // What a file chooses for others may stand behind them: the second time it is known.
  composed(name, new Map(choices), read, overrides);
  for (const [group, choice] of overrides) if (!chosen.has(group)) chosen.set(group, choice);
  return composed(name, chosen, read, new Map());
}

function composed(
  name: string,
  choices: ReadonlyMap<string, string>,
  read: ReadConfig,
  overrides: Map<string, string>,
): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  const named = new Set<string>();
  let files = 0;

  function add(file: string, above: readonly string[]): void {
    const text = files++ < maxFiles ? read(file) : undefined;
    if (text === undefined) return;
    const tree = yamlLeaves(text);
    const base = tree.package === undefined ? above : placed(tree.package, above);
    const group = file.split('/').slice(0, -1).join('/');
    let isSelfAdded = false;
    for (const item of tree.defaults) {
      if (item === '_self_') {
        addLeaves(tree, base);
        isSelfAdded = true;
        continue;
      }
      const part = readPart(item, group, base);
      if (part === undefined) continue;
      if (part.kind === 'override') overrides.set(part.group, part.choice);
      else if (part.kind === 'file') add(joined(part.group, part.choice), part.package);
      else addPart(part);
    }
    if (!isSelfAdded) addLeaves(tree, base);
  }

  function addPart(part: Part): void {
    named.add(part.group);
    const choice = choices.get(part.group) ?? part.choice;
    if (choice !== 'null') add(joined(part.group, choice), part.package);
  }

  function addLeaves({ leaves }: YamlTree, base: readonly string[]): void {
    for (const { path, value } of leaves) {
      const whole = [...base, ...path].join('.');
      if (value === undefined) found.delete(whole);
      else found.set(whole, value);
    }
  }

  add(name, []);
  // A choice of the command line that no list names is added behind them: `+experiment=large`.
  for (const [group, choice] of choices) {
    if (!named.has(group)) add(joined(group, choice), group.split('/'));
  }
  return found;
}

/** `trainer: small`, `override /model@encoder: big`, `optional db: mysql`, `base`. */
function readPart(item: string, group: string, base: readonly string[]): Part | undefined {
  const match =
    /^(override\s+)?(?:optional\s+)?['"]?([\w/.-]+?)(?:@([\w.]+))?['"]?\s*(?::\s*(.*))?$/.exec(
      item,
    );
  if (match === null) return undefined;
  const [, override, name = '', at, choice] = match;
  const whole = name.startsWith('/') ? name.slice(1) : joined(group, name);
  // Without a choice it is a file beside the others, whose keys stand where those of its list do.
  if (choice === undefined) {
    const path = whole.split('/');
    const file = path.pop() ?? '';
    return { group: path.join('/'), choice: file, package: base, kind: 'file' };
  }
  const word = choice.replaceAll(/^['"]|['"]$/g, '');
  if (!/^[\w./-]+$/.test(word)) return undefined;
  return {
    group: whole,
    choice: word.replace(/\.ya?ml$/, ''),
    package: at === undefined ? [...base, ...name.split('/').filter(Boolean)] : placed(at, base),
    kind: override === undefined ? 'choice' : 'override',
  };
}

function placed(name: string, above: readonly string[]): readonly string[] {
  if (name === '_global_') return [];
  if (name === '_here_' || name === '_group_') return above;
  return name.split('.');
}

function joined(group: string, name: string): string {
  return group === '' ? name : `${group}/${name}`;
}

/** A configuration in a file, as far as Hydra's rules are followed here. */
interface YamlTree {
  /** In the order of the file; `undefined` where the value is not a whole number. */
  readonly leaves: readonly {
    readonly path: readonly string[];
    readonly value: number | undefined;
  }[];
  /** The items of its list `defaults`, as they are written. */
  readonly defaults: readonly string[];
  /** The package that its head states for its keys: `_global_`, `model.encoder`. */
  readonly package: string | undefined;
}

/** Configurations have some hundred lines; what is far longer is data. */
const maxLines = 20_000;

interface Open {
  readonly indent: number;
  /** Undefined inside a list: what is below has no path of keys. */
  readonly key: string | undefined;
}

/**
 * The keys of a YAML file with their paths, by its indentation; other forms of YAML are not looked into.
 *
 * @example
 * yamlLeaves('trainer:\n  batch_size: 8\n').leaves; // [{ path: ['trainer', 'batch_size'], value: 8 }]
 */
export function yamlLeaves(text: string): YamlTree {
  const leaves: { path: readonly string[]; value: number | undefined }[] = [];
  const defaults: string[] = [];
  const open: Open[] = [];
  for (const raw of text.split('\n', maxLines)) {
    const line = raw.replace(/(?:^|\s)#.*$/, '').trimEnd();
    const content = line.trimStart();
    const indent = line.length - content.length;
    if (content === '' || content === '---' || line.startsWith('\t')) continue;
    if (content === '-' || content.startsWith('- ')) {
      // A list may stand below its key, or as far left as it.
      close(open, (one) => one.indent > indent || (one.indent === indent && one.key === undefined));
      if (open.length === 1 && open[0]?.key === 'defaults') defaults.push(content.slice(1).trim());
      open.push({ indent, key: undefined });
      continue;
    }
    close(open, (one) => one.indent >= indent);
    const [, key, value = ''] = /^['"]?([\w.@/-]+)['"]?\s*:(?:\s+(.*))?$/.exec(content) ?? [];
    if (key === undefined) continue;
    const above = open.flatMap((one) => one.key ?? []);
    const isInList = above.length < open.length;
    if (value === '') open.push({ indent, key });
    else if (!isInList) leaves.push({ path: [...above, key], value: wholeNumber(value) });
  }
  const head = /^#\s*@package:?\s+(\S+)/m.exec(text.slice(0, 2000));
  return { leaves, defaults, package: head?.[1] };
}

function close(open: Open[], isOver: (one: Open) => boolean): void {
  for (let last = open.at(-1); last !== undefined && isOver(last); last = open.at(-1)) open.pop();
}

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
    firstOption(options, batchNames, '{batch_size}'),
    firstOption(options, accumulationNames, '{accumulation}'),
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

function firstOption(
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

/** A setting that a command does not name, and the words that would set it. */
export interface OpenSetting {
  /** As it is typed: `--batch-size`, `trainer.batch_size`. */
  readonly flag: string;
  /** With a placeholder in the place of the number. */
  readonly words: readonly string[];
  readonly value: number;
}

/**
 * A command with settings behind it that it has from elsewhere; those that it names itself stay where
 * they are. Undefined where the batch is in neither.
 *
 * @example
 * addedFlags(['python', 'train.py'], batch, undefined)?.command;
 * // ['python', 'train.py', '--batch-size', '{batch_size}']
 */
function addedFlags(
  command: readonly string[],
  batch: OpenSetting | undefined,
  accumulation: OpenSetting | undefined,
): KnownFlags | undefined {
  const own = knownFlags(command);
  const flag = own?.batchFlag ?? batch?.flag;
  const value = own?.batch ?? batch?.value;
  if (flag === undefined || value === undefined) return undefined;
  const words = own?.command ?? [...command, ...(batch?.words ?? [])];
  const hasAccumulation = words.some((word) => word.includes('{accumulation}'));
  const added = hasAccumulation ? undefined : accumulation;
  return {
    command: [...words, ...(added?.words ?? [])],
    batchFlag: flag,
    batch: value,
    accumulation: added?.value ?? own?.accumulation ?? 1,
  };
}
