import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { inject } from 'vitest';

/**
 * What several test files need, as a folder: the first that asks makes it, the others wait for it. It is made
 * again in each run of vitest, so that no test runs yesterday's code. No test may change it.
 */
export async function madeOnce(
  name: string,
  make: (folder: string) => Promise<unknown>,
): Promise<string> {
  const folder = join(inject('runFolder'), name);
  const claim = `${folder}.claim`;
  await eventually(() => existsSync(folder) || isClaimed(claim));
  if (existsSync(folder)) return folder;
  const part = `${folder}.part`;
  try {
    await make(part);
    renameSync(part, folder);
    return folder;
  } finally {
    // Where it could not be made, the next one tries, and tells the same error.
    rmSync(part, { recursive: true, force: true });
    rmSync(claim, { recursive: true });
  }
}

/** Whether this call made the folder: of several processes one does. */
function isClaimed(claim: string): boolean {
  try {
    mkdirSync(claim);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  }
}

/** Looks again until it is so. How long that takes is up to the machine: the limit is the test's. */
export async function eventually(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 10));
}
