import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { needs } from './needs.js';

const megabyte = 2 ** 20;

/** For tests of a full disk; in many containers not even root may mount one. */
export const needsSmallDisk = needs(canMount(), 'the right to mount a small disk (tmpfs)');

/** A disk of 4 MB in place of a folder, until the test ends. */
export function smallDisk(folder: string): void {
  expect(mountAt(folder)).toBe(true);
  onTestFinished(() => unmount(folder));
}

function canMount(): boolean {
  const folder = mkdtempSync(join(tmpdir(), 'plimsoll-disk-'));
  const isMounted = mountAt(folder);
  if (isMounted) unmount(folder);
  rmdirSync(folder);
  return isMounted;
}

function mountAt(folder: string): boolean {
  const args = ['-t', 'tmpfs', '-o', 'size=4m,mode=700', 'tmpfs', folder];
  return process.platform === 'linux' && spawnSync('mount', args).status === 0;
}

function unmount(folder: string): void {
  spawnSync('umount', ['-l', folder]);
}

/** Takes all that is free on a small disk; removing the file that it answers gives it back. */
export function fillDisk(folder: string): string {
  const filler = join(folder, 'filler');
  expect(() => writeFileSync(filler, Buffer.alloc(8 * megabyte))).toThrow('ENOSPC');
  return filler;
}
