import { resolve } from 'node:path';
import { readOwnFile } from '../../files/own-file.js';
import { MiB } from '../../units/bytes.js';
import type { AdaptedConfig } from './adapted-config.js';
import { yamlFiles, yamlSettings } from './yaml-settings.js';

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
