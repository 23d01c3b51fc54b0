import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';

const megabyte = 2 ** 20;

/** A disk of 4 MB in place of a folder, until the test ends; false where we may not make one (only root may). */
export function smallDisk(folder: string): boolean {
  const args = ['-t', 'tmpfs', '-o', 'size=4m,mode=700', 'tmpfs', folder];
  if (process.platform !== 'linux' || spawnSync('mount', args).status !== 0) {
    process.stderr.write('Left out: a full disk, as this user may not mount a small one.\n');
    return false;
  }
  onTestFinished(() => {
    spawnSync('umount', ['-l', folder]);
  });
  return true;
}

/** Takes all that is free on a small disk; removing the file that it answers gives it back. */
export function fillDisk(folder: string): string {
  const filler = join(folder, 'filler');
  expect(() => writeFileSync(filler, Buffer.alloc(8 * megabyte))).toThrow('ENOSPC');
  return filler;
}
