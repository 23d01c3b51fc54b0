import { writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { Failure } from '../../failure.js';
import { makeFolder } from '../../files/folders.js';
import { readOwnFile } from '../../files/own-file.js';
import { MiB } from '../../units/bytes.js';
import { isKnown } from '../../units/known.js';
import type { RunSettings } from '../types.js';
import {
  accumulationNames,
  accumulationOf,
  batchNames,
  plainName,
  wholeNumber,
} from './known-flags.js';

/** A YAML file that the command names, with the batch that changes at a restart. */
export interface AdaptedConfig extends YamlSettings {
  /** As the command names it. */
  readonly file: string;
  /** As it was when the run began: a restart does not depend on what happens to the file. */
  readonly text: string;
}

/** Whether the program is told its accumulation by the file, or can be. */
export function tellsAccumulation({ batch, accumulation }: YamlSettings): boolean {
  return accumulation !== undefined || accumulationOf[plainName(batch.key)] !== undefined;
}

/**
 * The configuration with another batch, all else as it was.
 *
 * @example
 * configText({ text: 'batch_size: 8\n', batch: { line: 1, key: 'batch_size', value: 8 }, ... }, settings);
 * // 'batch_size: 4\n'
 */
export function configText(config: AdaptedConfig, settings: RunSettings): string {
  const { text, batch, accumulation } = config;
  if (!isKnown(settings.batch_size)) return text;
  const lines = text.split('\n');
  set(lines, batch, settings.batch_size);
  const other = accumulationOf[plainName(batch.key)];
  if (accumulation !== undefined) set(lines, accumulation, settings.accumulation);
  else if (other !== undefined) {
    const before = /^\s*/.exec(lines[batch.line - 1] ?? '')?.[0] ?? '';
    lines.splice(batch.line, 0, `${before}${other}: ${settings.accumulation}`);
  }
  return lines.join('\n');
}

function set(lines: string[], { line, value }: YamlSetting, number: number): void {
  const index = line - 1;
  lines[index] = (lines[index] ?? '').replace(
    new RegExp(String.raw`(:\s*)${value}\b`),
    `$1${number}`,
  );
}

/** The command of an attempt with a changed copy of the configuration, which lies in the run's folder. */
export function withConfig(
  command: readonly string[],
  config: AdaptedConfig,
  settings: RunSettings,
  folder: string,
): readonly string[] {
  // In a folder of its own it keeps its name: programs call their results by it.
  const copy = join(folder, basename(config.file));
  try {
    makeFolder(folder, 0o700);
    writeFileSync(copy, configText(config, settings), { mode: 0o600 });
  } catch (error) {
    throw new Failure({
      kind: 'missing',
      code: 'cannot-keep-state',
      fact: `The changed copy of ${config.file} cannot be written to ${folder}: ${error instanceof Error ? error.message : String(error)}.`,
      next: 'Make room there, or set PLIMSOLL_HOME to a folder that can be written.',
      cause: error,
    });
  }
  return command.map((word) =>
    word === config.file || (word.startsWith('-') && word.endsWith(`=${config.file}`))
      ? `${word.slice(0, word.length - config.file.length)}${copy}`
      : word,
  );
}

/** A configuration is some kilobytes; a larger file is data. */
const maxBytes = MiB;
/** A command names one or two of them. */
const maxFiles = 8;

/** The batches that YAML files set which a command names; files that cannot be read tell nothing. */
export function configuredBatches(
  command: readonly string[],
  folder: string,
): readonly AdaptedConfig[] {
  return yamlFiles(command)
    .slice(0, maxFiles)
    .flatMap((file) => {
      const text = readOwnFile(resolve(folder, file), maxBytes) ?? '';
      const found = yamlSettings(text);
      return found === undefined ? [] : [{ file, text, ...found }];
    });
}

/** A number in a YAML file that a command names. */
interface YamlSetting {
  readonly line: number;
  readonly key: string;
  readonly value: number;
}

export interface YamlSettings {
  readonly batch: YamlSetting;
  readonly accumulation: YamlSetting | undefined;
}

/** Configurations have some hundred lines; what is far longer is data. */
const maxLines = 20_000;

/** Lines such as `  batch_size: 8  # comment`; other forms of YAML are not looked into. */
const setting = /^[\s-]*['"]?([a-z_][\w-]*)['"]?\s*:\s*(\d+)\s*(?:#.*)?$/i;

/** The batch and the accumulation that a configuration sets; undefined where it sets no batch. */
export function yamlSettings(text: string): YamlSettings | undefined {
  const found = text.split('\n', maxLines).flatMap((line, index) => {
    const [, key = '', number = ''] = setting.exec(line.trimEnd()) ?? [];
    const value = wholeNumber(number);
    return value === undefined ? [] : [{ line: index + 1, key, value }];
  });
  const first = (names: readonly string[]) => {
    for (const name of names) {
      const one = found.find(
        ({ key }) => key.length > 2 && key.toLowerCase().replaceAll('-', '_') === name,
      );
      if (one !== undefined) return one;
    }
    return undefined;
  };
  const batch = first(batchNames);
  return batch === undefined ? undefined : { batch, accumulation: first(accumulationNames) };
}

/** The words of a command that name a YAML file, also as `--config=file.yaml`. */
export function yamlFiles(command: readonly string[]): readonly string[] {
  return command
    .map((word) => (word.startsWith('-') ? word.slice(word.indexOf('=') + 1) : word))
    .filter((word) => /\.ya?ml$/i.test(word));
}
