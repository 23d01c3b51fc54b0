import { join } from 'node:path';
import { Failure } from '../../failure.js';
import { makeFolder } from '../../files/make-folder.js';
import { openOutputFile } from '../../files/output-file.js';
import { readOwnFile } from '../../files/own-file.js';
import { configName } from '../config/read-config.js';
import { limits } from '../limits.js';

/** Where a config of that name is kept: from the catalogue, or from the hub. */
export function keptFolder(home: string, from: 'catalogue' | 'hub', name: string): string {
  return join(home, 'models', from, name.replaceAll('/', '--'));
}

/** The folder, where a config was kept there before. */
export function keptConfig(folder: string): string | undefined {
  const text = readOwnFile(join(folder, configName), limits.configBytes);
  return text === undefined || text === '' ? undefined : folder;
}

/** Writes a config where Python can read it too; one that is there and the same is left alone. */
export function keepConfig(folder: string, text: string): string {
  const file = join(folder, configName);
  if (readOwnFile(file, limits.configBytes) === text) return folder;
  try {
    makeFolder(folder, 0o700);
  } catch (error) {
    throw new Failure({
      kind: 'input',
      code: 'cannot-write',
      fact: `The folder ${folder} cannot be made (${error instanceof Error ? error.message : String(error)}).`,
      next: 'Set PLIMSOLL_HOME to a folder that can be written.',
      cause: error,
    });
  }
  openOutputFile(file, folder).write(text);
  return folder;
}
