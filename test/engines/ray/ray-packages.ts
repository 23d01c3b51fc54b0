import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../../support/project-files.js';

const rayVersion = '2.60.0';

/**
 * Ray in a virtual environment of the project's build: nothing is installed elsewhere. Answers its
 * folder; an error where it cannot be had.
 */
export function rayPackages(): string {
  const folder = join(root, 'build/engines', `ray-${rayVersion}`);
  const stamp = join(folder, 'complete');
  if (existsSync(stamp)) return folder;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(root, 'build/engines'), { recursive: true });
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check'];
  try {
    execFileSync('python3', ['-m', 'venv', folder], { stdio: ['ignore', 'pipe', 'pipe'] });
    execFileSync(join(folder, 'bin/python'), [...pip, `ray[default]==${rayVersion}`], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Error(`Ray ${rayVersion} cannot be had (python3 -m venv, pip install): ${why}`, {
      cause: error,
    });
  }
  writeFileSync(`${stamp}.tmp`, '');
  renameSync(`${stamp}.tmp`, stamp);
  return folder;
}
