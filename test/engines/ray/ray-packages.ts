import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../../support/project-files.js';

const rayVersion = '2.60.0';

/**
 * Ray in a virtual environment of the project's build: nothing is installed elsewhere. Answers its
 * folder; an error where it cannot be had.
 */
function rayPackages(): string {
  const folder = join(root, 'build/engines', `ray-train-${rayVersion}`);
  const stamp = join(folder, 'complete');
  if (existsSync(stamp)) return folder;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(root, 'build/engines'), { recursive: true });
  const patient = ['--retries', '10', '--timeout', '120'];
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...patient];
  try {
    execFileSync('python3', ['-m', 'venv', folder], { stdio: ['ignore', 'pipe', 'pipe'] });
    execFileSync(join(folder, 'bin/python'), [...pip, `ray[default,train]==${rayVersion}`], {
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

/** Python with Ray. */
export interface RayPython {
  readonly program: string;
  /** What it finds Ray by; empty where it does so by itself. */
  readonly path: string;
}

export function rayPython(): RayPython {
  return { program: join(rayPackages(), 'bin/python'), path: '' };
}

/**
 * The same for another account; undefined where it can run none. The Python of the virtual environment
 * may lie in the home of this account: then the system's own is taken, where it can read the packages.
 */
export function rayPythonOf(account: number): RayPython | undefined {
  const own = rayPython();
  const library = join(rayPackages(), 'lib');
  const path = join(library, readdirSync(library)[0] ?? '', 'site-packages');
  return [own, { program: '/usr/bin/python3', path }].find(({ program, path: given }) => {
    const env = { ...process.env, PYTHONPATH: given, HOME: '/nowhere' };
    const as = { uid: account, gid: account, cwd: '/', env };
    return spawnSync(program, ['-c', 'import ray'], as).status === 0;
  });
}
