import { readdirSync, readFileSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { configName } from '../config/read-config.js';

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The folder in which `huggingface_hub` keeps what it downloaded.
 *
 * @example
 * hubCacheFolder({ HF_HOME: '/data/hf' }); // '/data/hf/hub'
 */
function hubCacheFolder(environment: Environment, userHome: string = homedir()): string {
  const named = environment['HF_HUB_CACHE'] ?? environment['HUGGINGFACE_HUB_CACHE'];
  if (named) return named;
  const home = environment['HF_HOME'];
  if (home) return join(home, 'hub');
  return join(environment['XDG_CACHE_HOME'] ?? join(userHome, '.cache'), 'huggingface', 'hub');
}

/** Names in a folder; a cache that is not there or may not be read has none. */
function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/**
 * The snapshot of a model that lies in the cache, with at least its config. A name without an
 * organization is found where only one organization has it.
 *
 * @example
 * cachedModel('openai-community/gpt2', process.env);
 */
export function cachedModel(name: string, environment: Environment): string | undefined {
  const cache = hubCacheFolder(environment);
  const wanted = name.toLowerCase().replaceAll('/', '--');
  const matches = namesIn(cache).filter((folder) => {
    const own = folder.toLowerCase();
    if (!own.startsWith('models--')) return false;
    return own === `models--${wanted}` || (!name.includes('/') && own.endsWith(`--${wanted}`));
  });
  const found = matches.flatMap((folder) => snapshotIn(join(cache, folder)) ?? []);
  return found.length === 1 ? found[0] : undefined;
}

/** The revision that `main` names, else the latest one that has a config. */
function snapshotIn(folder: string): string | undefined {
  const snapshots = join(folder, 'snapshots');
  const main = mainRevision(folder);
  const others = namesIn(snapshots).map((name) => join(snapshots, name));
  const inOrder = [
    ...(main === undefined ? [] : [join(snapshots, main)]),
    ...others.toSorted((one, other) => changedMs(other) - changedMs(one)),
  ];
  return inOrder.find((path) => isFile(join(path, configName)));
}

/** A commit has 40 digits; anything else in that file is not followed. */
function mainRevision(folder: string): string | undefined {
  try {
    const path = join(folder, 'refs', 'main');
    if (!isFile(path) || statSync(path).size > 100) return undefined;
    const text = readFileSync(path, 'utf8').trim();
    return /^[\da-f]{40}$/.test(text) ? text : undefined;
  } catch {
    return undefined;
  }
}

function changedMs(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

function isFile(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
