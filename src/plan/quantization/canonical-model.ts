import { realpathSync, statSync } from 'node:fs';
import { basename, dirname } from 'node:path';

/**
 * One name for one model: a folder that is there by its real path, however it was written.
 * `./my-model`, `my-model/` and `my-model/config.json` are the same model; anything else is a name
 * on a hub. The Python package names models by the same rule.
 *
 * @example
 * canonicalModel('cyberagent/calm3-22b-chat'); // the same, unless there is such a folder here
 */
export function canonicalModel(model: string): string {
  const folder = basename(model) === 'config.json' ? dirname(model) : model;
  try {
    return statSync(folder).isDirectory() ? realpathSync.native(folder) : model;
  } catch {
    return model;
  }
}
