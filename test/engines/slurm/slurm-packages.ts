import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../../support/project-files.js';

/** What the cluster is made of; what these need besides is asked of apt. */
const wanted = [
  'slurmctld',
  'slurmd',
  'slurm-client',
  'slurm-wlm-basic-plugins',
  'munge',
  'libmunge2',
];

/**
 * Debian's Slurm, unpacked into a folder of the project's build: nothing is installed. Answers that
 * folder; an error where the packages cannot be had.
 */
export function slurmPackages(): string {
  const folder = join(root, 'build/engines/slurm');
  if (existsSync(join(folder, 'usr/bin/sbatch'))) return folder;
  const work = `${folder}.making`;
  rmSync(work, { recursive: true, force: true });
  mkdirSync(join(work, 'packages'), { recursive: true });
  // A new machine has no lists of packages.
  if (missingPackages() === undefined) apt(['update', '-qq'], work);
  const names = [...new Set([...wanted, ...(missingPackages() ?? [])])];
  apt(['download', '-qq', ...names], join(work, 'packages'));
  for (const name of readdirSync(join(work, 'packages'))) {
    execFileSync('dpkg', ['-x', join(work, 'packages', name), work]);
  }
  renameSync(work, folder);
  return folder;
}

/** What apt would install for it; undefined where it knows no such package. */
function missingPackages(): readonly string[] | undefined {
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
  try {
    execFileSync('apt-get', words, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Error(`Slurm's packages cannot be had (apt-get ${words.join(' ')}): ${why}`, {
      cause: error,
    });
  }
}
