import { constants } from 'node:fs';
import { cp, lstat, opendir } from 'node:fs/promises';
import { join } from 'node:path';
import { Failure } from '../../failure.js';
import { formatBytes, GiB } from '../../units/bytes.js';

/** A folder of code is far smaller; one with data or checkpoints would fill the temporary folder. */
const maxBytes = 2 * GiB;
const maxFiles = 50_000;

/**
 * Copies a folder, sharing the blocks of its files where the file system can. Links stay links. A folder
 * that is too large is a `Failure`, before anything is copied.
 *
 * @example
 * await copyFolder('project', 'copy');
 */
export async function copyFolder(
  from: string,
  to: string,
  limits: { readonly bytes: number; readonly files: number } = {
    bytes: maxBytes,
    files: maxFiles,
  },
): Promise<void> {
  let files = 0;
  let bytes = 0;
  for await (const entry of await opendir(from, { recursive: true })) {
    files += 1;
    if (entry.isFile()) bytes += (await lstat(join(entry.parentPath, entry.name))).size;
    if (files > limits.files || bytes > limits.bytes) throw tooLarge(from, limits);
  }
  await cp(from, to, {
    recursive: true,
    verbatimSymlinks: true,
    mode: constants.COPYFILE_FICLONE,
  });
}

function tooLarge(
  from: string,
  limits: { readonly bytes: number; readonly files: number },
): Failure {
  return new Failure({
    kind: 'input',
    code: 'folder-too-large',
    fact: `The folder ${from} holds more than ${formatBytes(limits.bytes)} or ${limits.files} files, so it is not copied.`,
    next: "Leave --cwd-copy out, or start from a folder that holds the program's code alone.",
  });
}
