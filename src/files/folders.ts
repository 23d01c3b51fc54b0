import { chmodSync, existsSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { checkArguments, object, text } from '../units/arguments.js';
import { codeOf } from './system-errors.js';

/**
 * Makes a folder and those above it that are not there. Node's own `recursive` never returns where
 * the kernel refuses a new folder with ENOENT, as /proc does.
 *
 * @example
 * makeFolder('/srv/plimsoll/runs', 0o700);
 */
export function makeFolder(path: string, mode?: number): void {
  try {
    makeOne(path, mode);
  } catch (error) {
    const above = dirname(path);
    if (codeOf(error) !== 'ENOENT' || above === path) throw error;
    // Another process may have made those above since, and may make this one.
    if (!isFolder(above)) makeFolder(above, mode);
    makeOne(path, mode);
  }
}

function makeOne(path: string, mode?: number): void {
  try {
    mkdirSync(path, mode);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST' || !isFolder(path)) throw error;
  }
}

/** Makes a folder that has this mode whatever the umask is; one that is there keeps its own. */
export function makeOpenFolder(path: string, mode: number): void {
  if (isFolder(path)) return;
  makeFolder(path, mode);
  chmodSync(path, mode);
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

/**
 * The folder of this package: the nearest one above with a package.json. It is searched for
 * because the same code runs from `src`, from `dist` and from the bundled command, each at another
 * depth.
 */
export const packageFolder = nearestPackage(dirname(fileURLToPath(import.meta.url)));

function nearestPackage(from: string): string {
  if (existsSync(join(from, 'package.json'))) return from;
  const above = dirname(from);
  return above === from ? from : nearestPackage(above);
}

export function packageVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(join(packageFolder, 'package.json'), 'utf8'));
  return String(Reflect.get(Object(manifest), 'version'));
}

/**
 * Where plimsoll keeps its state: `$PLIMSOLL_HOME`, or `.plimsoll` in the user's home. It need not
 * exist yet.
 *
 * @example
 * homeFolder({ PLIMSOLL_HOME: '/srv/plimsoll' }); // '/srv/plimsoll'
 */
export function homeFolder(
  environment: Readonly<Record<string, string | undefined>>,
  userHome: string = homedir(),
): string {
  checkArguments('homeFolder', { environment, userHome }, { environment: object, userHome: text });
  const named = environment['PLIMSOLL_HOME'];
  return named ? resolve(named) : join(userHome, '.plimsoll');
}
