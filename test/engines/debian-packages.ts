import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../support/project-files.js';

/** What is unpacked, and where. */
export interface DebianPackages {
  /** A folder of build/engines. */
  readonly folder: string;
  /** What these need besides is asked of apt. */
  readonly wanted: readonly string[];
  /** A file that is there once all is unpacked. */
  readonly proof: string;
}

/**
 * Packages of Debian, unpacked into a folder of the project's build: nothing is installed. Answers that
 * folder; an error where the packages cannot be had.
 */
export function debianPackages({ folder: name, wanted, proof }: DebianPackages): string {
  const folder = join(root, 'build/engines', name);
  if (existsSync(join(folder, proof))) return folder;
  const work = `${folder}.making`;
  rmSync(work, { recursive: true, force: true });
  mkdirSync(join(work, 'packages'), { recursive: true });
  try {
    // A new machine has no lists of packages; old lists name versions that the mirror has no more.
    apt(['update'], work);
  } catch (error) {
    // Another source of this machine may be the one that fails.
    if (missingPackages(wanted) === undefined) throw error;
  }
  const names = [...new Set([...wanted, ...(missingPackages(wanted) ?? [])])];
  apt(['download', ...names], join(work, 'packages'));
  for (const file of readdirSync(join(work, 'packages'))) {
    execFileSync('dpkg', ['-x', join(work, 'packages', file), work]);
  }
  renameSync(work, folder);
  return folder;
}

/** What apt would install for them; undefined where it knows no such package. */
function missingPackages(wanted: readonly string[]): readonly string[] | undefined {
  try {
    const words = ['install', '--simulate', '--no-install-recommends', ...wanted];
    const plan = execFileSync('apt-get', words, {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    return [...plan.matchAll(/^Inst (\S+)/gm)].map(([, name = '']) => name);
  } catch {
    return undefined;
  }
}

function apt(words: readonly string[], folder: string): void {
  const patient = ['-qq', '-o', 'Acquire::Retries=5'];
  try {
    execFileSync('apt-get', [...patient, ...words], {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Error(`The packages cannot be had (apt-get ${words.join(' ')}): ${why}`, {
      cause: error,
    });
  }
}
