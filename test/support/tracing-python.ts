import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { root } from './project-files.js';

/** The Python of the checkout, which has torch where it was set up. */
export const tracingPython = join(root, '.venv/bin/python');

/** Whether programs can be traced here; where not, says what was left out. */
export function canTrace(leftOut: string): boolean {
  try {
    execFileSync(tracingPython, ['-c', 'import torch'], { stdio: 'ignore' });
    return true;
  } catch {
    process.stderr.write(`Left out: ${leftOut}, as the .venv here has no torch.\n`);
    return false;
  }
}
