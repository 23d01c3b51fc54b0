import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import type { TestOptions } from 'vitest';
import { root } from './project-files.js';

declare module 'vitest' {
  interface TaskMeta {
    /** The reason why a test cannot run here; `npm test` prints it at its end. */
    leftOut?: string;
  }
}

/**
 * Options for tests that need something of the machine. Without it `npm test` lists each of them as left out,
 * with this reason.
 */
export function needs(isThere: boolean, what: string): TestOptions {
  return isThere ? {} : { skip: true, meta: { leftOut: `needs ${what}` } };
}

export const needsLinux = needs(process.platform === 'linux', 'Linux');

const isRoot = process.getuid?.() === 0;
export const needsRoot = needs(isRoot, 'the user root');

/** For tests in which another account runs the command: it has to read the checkout and Node. */
export const needsOtherAccounts = needs(
  isRoot && canRead(65_534),
  'the user root, and a checkout and a Node that every account can read',
);

/** The Python of the checkout, which has torch where it was set up. */
export const tracingPython = join(root, '.venv/bin/python');

// Torch is looked for, and not loaded: that takes seconds of a processor.
const findTorch =
  'from importlib.util import find_spec as f; exit(not (f("torch") and f("numpy")))';
export const hasTorch = spawnSync(tracingPython, ['-c', findTorch]).status === 0;
export const needsTorch = needs(hasTorch, 'a .venv with torch');

function canRead(uid: number): boolean {
  const look = ['-e', "require.resolve('koffi', { paths: [process.argv[1]] })", root];
  return spawnSync(process.execPath, look, { uid, gid: uid, cwd: '/' }).status === 0;
}
