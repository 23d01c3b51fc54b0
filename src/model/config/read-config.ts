import { join } from 'node:path';
import type { ByteSource } from '../files/byte-source.js';
import { kindOfPath, withFile } from '../files/disk.js';
import { limits } from '../limits.js';
import type { ModelDescription } from '../types.js';
import { badConfig, type ConfigValues, isRecord } from './config-fields.js';
import { describeConfig } from './describe-config.js';
import { checkJsonStructure } from './json-structure.js';
import { withoutPythonNumbers } from './python-json.js';

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
