import { resolve } from 'node:path';
import { readOwnFile } from '../../files/own-file.js';
import { MiB } from '../../units/bytes.js';
import { type YamlSettings, yamlFiles, yamlSettings } from './yaml-settings.js';

/** A configuration is some kilobytes; a larger file is data. */
const maxBytes = MiB;
/** A command names one or two of them. */
const maxFiles = 8;

/** The batches that YAML files set which a command names; files that cannot be read tell nothing. */
export function configuredBatches(
  command: readonly string[],
  folder: string,
): readonly (YamlSettings & { readonly file: string })[] {
  return yamlFiles(command)
    .slice(0, maxFiles)
    .flatMap((file) => {
      const found = yamlSettings(readOwnFile(resolve(folder, file), maxBytes) ?? '');
      return found === undefined ? [] : [{ file, ...found }];
    });
}
