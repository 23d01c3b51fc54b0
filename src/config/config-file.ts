import { closeSync, existsSync, fstatSync, openSync, readFileSync, type Stats } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { Failure } from '../failure.js';
import { readReason } from '../files/system-errors.js';
import { nearest } from '../units/words.js';
import {
  type JsonPath,
  JsonSyntaxError,
  type JsonWithPlaces,
  readJsonWithPlaces,
} from './json-places.js';
import {
  allowedWords,
  type Config,
  configJsonSchema,
  configSchema,
  limits,
  nodeAt,
} from './schema.js';

const configFileName = 'plimsoll.config.json';

/**
 * The configuration that holds in a folder: `plimsoll.config.json` there or in the nearest folder
 * above it. The search ends at the first folder that has a `.git`, because a project's settings end
 * where the project does, and at the root of the file system.
 */
export function findConfigFile(folder: string): string | undefined {
  for (let at = resolve(folder); ; at = dirname(at)) {
    const candidate = join(at, configFileName);
    if (existsSync(candidate)) return candidate;
    if (existsSync(join(at, '.git')) || dirname(at) === at) return undefined;
  }
}

export interface ConfigFile extends JsonWithPlaces {
  /** The path as a person standing in `folder` would write it. */
  readonly shownPath: string;
}

/**
 * Reads a configuration file. One that was found rather than named must belong to the user or to
 * root: it may name a program to run, and anyone can leave a file in a shared folder such as /tmp.
 */
export function readConfigFile(path: string, folder: string, named: boolean): ConfigFile {
  const near = relative(folder, path);
  const shownPath = near.startsWith('..') ? path : near;
  const text = decode(readBytes(path, shownPath, named), shownPath);
  try {
    return { ...readJsonWithPlaces(text), shownPath };
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    const { line, column } = error.place;
    throw new Failure({
      kind: 'input',
      code: 'bad-config-file',
      fact: `${shownPath}:${line}:${column}: this is not JSON: ${error.message}.`,
      next: 'Correct it there.',
      cause: error,
    });
  }
}

function readBytes(path: string, shownPath: string, named: boolean): Buffer {
  let descriptor: number | undefined;
  try {
    descriptor = openSync(path, 'r');
    const stats = fstatSync(descriptor);
    refuse(stats, shownPath, named);
    return readFileSync(descriptor);
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw new Failure({
      kind: 'input',
      code: 'unreadable-config-file',
      fact: `The configuration file ${shownPath} cannot be read: ${readReason(error)}.`,
      next: 'Check the path and its permissions.',
      cause: error,
    });
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

function refuse(stats: Stats, shownPath: string, named: boolean): void {
  if (!stats.isFile()) {
    throw new Failure({
      kind: 'input',
      code: 'unreadable-config-file',
      fact: `The configuration file ${shownPath} is not a file.`,
      next: `Name a file with --config, or make ${configFileName} a file.`,
    });
  }
  if (stats.size > limits.fileBytes) {
    throw new Failure({
      kind: 'input',
      code: 'config-file-too-large',
      fact: `The configuration file ${shownPath} has ${stats.size} bytes; at most ${limits.fileBytes} are read.`,
      next: 'Check that it is the right file.',
    });
  }
  if (!named && !isTrustedOwner(stats.uid, process.getuid?.())) {
    throw new Failure({
      kind: 'input',
      code: 'foreign-config-file',
      fact: `The configuration file ${shownPath} belongs to another user, so it is not trusted.`,
      next: `Name it with --config ${shownPath} if you trust it.`,
    });
  }
}

/** Windows has no such owners; there `me` is undefined and the folder's own rules hold. */
export function isTrustedOwner(owner: number, me: number | undefined): boolean {
  return me === undefined || owner === me || owner === 0;
}

function decode(bytes: Buffer, shownPath: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (error) {
    throw new Failure({
      kind: 'input',
      code: 'bad-config-file',
      fact: `The configuration file ${shownPath} is not UTF-8 text.`,
      next: 'Save it as UTF-8.',
      cause: error,
    });
  }
}

/** How to name a place in what is being checked: a line in a file, or a variable. */
export interface Places {
  ofValue(path: JsonPath): string;
  ofKey(path: JsonPath): string;
}

/** Longer values are cut in messages: a person wants to recognise it, not to read it all. */
const shownLength = 60;

/** Checks a value against the schema; the first thing wrong becomes one `Failure`. */
export function checkConfig(value: unknown, places: Places): Config {
  const parsed = configSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const schema = configJsonSchema();
  for (const issue of parsed.error.issues) {
    const path = issue.path.filter((step) => typeof step !== 'symbol');
    if (issue.code !== 'unrecognized_keys') {
      throw badValue(path, valueAt(value, path), places);
    }
    const known = Object.keys(nodeAt(schema, path)?.properties ?? {});
    for (const key of issue.keys) throw unknownKey([...path, key], key, known, places);
  }
  throw badValue([], value, places);
}

function unknownKey(
  path: JsonPath,
  key: string,
  known: readonly string[],
  places: Places,
): Failure {
  const meant = nearest(key, known);
  return new Failure({
    kind: 'input',
    code: 'unknown-key',
    fact: `${places.ofKey(path)}: there is no key "${path.join('.')}".`,
    next: meant === undefined ? `The keys are: ${known.join(', ')}.` : `Did you mean "${meant}"?`,
  });
}

function badValue(path: JsonPath, value: unknown, places: Places): Failure {
  const node = nodeAt(configJsonSchema(), path);
  const name = path.length === 0 ? 'the whole' : path.join('.');
  return new Failure({
    kind: 'input',
    code: 'bad-config-value',
    fact: `${places.ofValue(path)}: ${name} is ${shown(value)}.`,
    next: node === undefined ? 'Correct it.' : `It takes ${allowedWords(node)}.`,
  });
}

function valueAt(value: unknown, path: JsonPath): unknown {
  return path.reduce<unknown>((current, step) => Reflect.get(Object(current), step), value);
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > shownLength ? `${text.slice(0, shownLength)}...` : text;
}
