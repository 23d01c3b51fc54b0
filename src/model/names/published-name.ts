import { join, relative, sep } from 'node:path';

/**
 * The name of a model that was found by its name, from the folder in which its config lies; undefined
 * for a folder of one's own. What is saved for a model goes by that name, as Python loads it by name.
 *
 * @example
 * publishedName('/srv/plimsoll/models/hub/Qwen--Qwen2.5-7B', '/srv/plimsoll'); // 'Qwen/Qwen2.5-7B'
 */
export function publishedName(folder: string, home: string): string | undefined {
  const cached = /[\\/]models--([^\\/]+)[\\/]snapshots[\\/][^\\/]+[\\/]?$/.exec(folder);
  if (cached?.[1] !== undefined) return cached[1].replace('--', '/');
  const [from, name, ...deeper] = relative(join(home, 'models'), folder).split(sep);
  if ((from !== 'hub' && from !== 'catalogue') || name === undefined || deeper.length > 0) {
    return undefined;
  }
  return name.replace('--', '/');
}
