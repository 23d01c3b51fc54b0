import { join } from 'node:path';
import type { ByteSource } from '../files/byte-reader.js';
import { kindOfPath, withFile } from '../files/disk.js';
import { limits } from '../limits.js';
import type { ModelDescription } from '../types.js';
import { badConfig, type ConfigValues, parseConfig } from './config-fields.js';
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
  const bytes = new Uint8Array(source.size);
  return parseConfig(decode(bytes.subarray(0, source.read(bytes, 0)), place), place);
}

function decode(bytes: Uint8Array, place: string): string {
  try {
    // A byte order mark is dropped: some editors leave one.
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    throw badConfig(place, 'it is not UTF-8 text', error);
  }
}
