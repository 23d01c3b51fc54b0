// From a folder to a .tar.xz that comes out the same, byte for byte, whoever makes it and when.
import { createHash } from 'node:crypto';
import { copyFileSync, readFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { run } from '../steps.mjs';
import { fail } from './trouble.mjs';

/** The date npm gives to every file of a package, for the same reason. */
const fixedSeconds = 499_162_500;

export async function checkTools() {
  const tar = await run(['tar', ['--version']]);
  if (tar.code !== 0 || !tar.output.includes('GNU tar')) {
    fail('no-tar', 'GNU tar is not on this machine.', 'Install it (Debian: apt install tar).');
  }
  if ((await run(['xz', ['--version']])).code !== 0) {
    fail('no-xz', 'xz is not on this machine.', 'Install it (Debian: apt install xz-utils).');
  }
}

export async function archive(folder, file) {
  const tar = `${folder}.tar`;
  const packed = await run([
    'tar',
    [
      '--create',
      `--file=${tar}`,
      `--directory=${dirname(folder)}`,
      '--format=ustar',
      '--sort=name',
      `--mtime=@${fixedSeconds}`,
      '--owner=0',
      '--group=0',
      '--numeric-owner',
      '--mode=u=rwX,go=rX',
      basename(folder),
    ],
  ]);
  if (packed.code !== 0) fail('tar-failed', packed.output.trim(), 'Is there room on the disk?');
  // One thread: with more, xz cuts the data into blocks, and by the number of cores.
  const pressed = await run(['xz', ['-6', '--threads=1', '--keep', '--force', tar]]);
  if (pressed.code !== 0) fail('xz-failed', pressed.output.trim(), 'Is there room on the disk?');
  // Not by renaming: the two places may be on different disks.
  copyFileSync(`${tar}.xz`, file);
}

export function sha256(file) {
  return createHash('sha256').update(readFileSync(file)).digest('hex');
}
