import { join } from 'node:path';
import type { Failure } from '../../failure.js';
import type { ByteSource } from '../files/byte-reader.js';
import { kindOfPath, withFile } from '../files/disk.js';
import { limits } from '../limits.js';
import type { ModelDescription } from '../model.js';
import { badConfig, type ConfigValues, isRecord } from './config-fields.js';
import { describeConfig } from './describe-config.js';

export const configName = 'config.json';

/**
 * Reads a Hugging Face `config.json`, or the one in a folder. Throws a `Failure` (`no-file` or
 * `bad-config`) that names the place.
 *
 * @example
 * const model = readModelConfig('models/gpt2');
 * model.parameters; // 124439808
 */
export function readModelConfig(path: string): ModelDescription {
  const file = kindOfPath(path) === 'folder' ? join(path, configName) : path;
  return describeConfig(
    withFile(file, (source) => readConfigValues(source, file)),
    file,
  );
}

/** The values of a config, as its text has them. */
export function readConfigValues(source: ByteSource, place: string): ConfigValues {
  if (source.size > limits.configBytes) {
    throw badConfig(place, `it has ${source.size} bytes; at most ${limits.configBytes} are read`);
  }
  const bytes = Buffer.alloc(source.size);
  const text = decode(bytes.subarray(0, source.read(bytes, 0)), place);
  checkJsonStructure(text, (what) => badConfig(place, what));
  let parsed: unknown;
  try {
    parsed = JSON.parse(withoutPythonNumbers(text));
  } catch (error) {
    // It quotes the text, whatever that is.
    const why = error instanceof Error ? error.message.replaceAll(/\p{Cc}+/gu, ' ') : 'unknown';
    throw badConfig(place, `it is not JSON (${why.slice(0, 120)})`, error);
  }
  if (isRecord(parsed)) return parsed;
  throw badConfig(place, 'it is not an object');
}

function decode(bytes: Buffer, place: string): string {
  try {
    // A byte order mark is dropped: some editors leave one.
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    throw badConfig(place, 'it is not UTF-8 text', error);
  }
}

/**
 * Refuses text that would fill memory once it is parsed: four million opening brackets take 4 MB as
 * text and gigabytes as lists. It does not find out whether the text is JSON.
 */
function checkJsonStructure(text: string, fail: (what: string) => Failure): void {
  let depth = 0;
  let values = 1;
  let inText = false;
  for (let index = 0; index < text.length; index += 1) {
    const character = text[index];
    if (inText) {
      if (character === '\\') index += 1;
      else if (character === '"') inText = false;
    } else if (character === '"') inText = true;
    else if (character === '{' || character === '[') {
      depth += 1;
      values += 1;
    } else if (character === '}' || character === ']') depth -= 1;
    else if (character === ',') values += 1;
    if (depth > limits.configDepth) throw fail(`it nests deeper than ${limits.configDepth} levels`);
    if (values > limits.configValues) throw fail(`it holds over ${limits.configValues} values`);
  }
}

/**
 * JSON as Python's `json` module writes it may hold `Infinity`, `-Infinity` and `NaN`, which JSON does not have: the configs
 * of Mamba 2 and its relatives do. Each becomes `null`, so that the rest can be read; texts in quotes stay as they are.
 */
export function withoutPythonNumbers(text: string): string {
  return text.replaceAll(/"(?:[^"\\]|\\.)*"|-?\bInfinity\b|\bNaN\b/gs, (found) =>
    found.startsWith('"') ? found : 'null',
  );
}
