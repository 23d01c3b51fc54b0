import {
  closeSync,
  fchmodSync,
  fsyncSync,
  openSync,
  realpathSync,
  renameSync,
  type Stats,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { Failure } from '../failure.js';
import { codeOf, isDiskFull } from './system-errors.js';

/** A file that a person asked us to write. */
export interface OutputFile {
  /** As it was named. */
  readonly path: string;
  /** All of the text, or no change at all: never half a file. */
  write(text: string): void;
}

/**
 * Checks that a file can be written before the hour is spent whose report it should hold, and
 * answers how to write it. The text goes to a file beside it first, which then takes its name. A
 * target that is no plain file (`/dev/stdout`, a named pipe) is written as it is.
 */
export function openOutputFile(named: string, folder: string): OutputFile {
  const stats = statOf(named, resolve(folder, named));
  if (stats?.isDirectory()) throw cannotWrite(named, 'it is a folder');
  // A link stays a link: what it points to is replaced.
  const path = stats ? realpathSync(resolve(folder, named)) : resolve(folder, named);
  if (stats && !stats.isFile())
    return { path: named, write: (text) => writeOver(named, path, text) };
  const temporary = join(dirname(path), `.${basename(path)}.${process.pid}.tmp`);
  attempt(named, temporary, () => {
    closeSync(openSync(temporary, 'wx'));
    unlinkSync(temporary);
  });
  return {
    path: named,
    write: (text) => attempt(named, temporary, () => replace(path, temporary, text, stats)),
  };
}

/** Writes all of them, even when one fails; then throws for the first that failed. */
export function writeAll(files: readonly (readonly [OutputFile, string])[]): void {
  const failures: unknown[] = [];
  for (const [file, text] of files) {
    try {
      file.write(text);
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
}

function replace(path: string, temporary: string, text: string, before: Stats | undefined): void {
  const descriptor = openSync(temporary, 'wx');
  try {
    writeFileSync(descriptor, text);
    if (before) fchmodSync(descriptor, before.mode & 0o777);
    // Without it a power cut could leave an empty file under the name.
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  renameSync(temporary, path);
}

function writeOver(named: string, path: string, text: string): void {
  try {
    writeFileSync(path, text);
  } catch (error) {
    throw cannotWrite(named, reasonOf(error), error);
  }
}

function attempt(named: string, temporary: string, act: () => void): void {
  try {
    act();
  } catch (error) {
    try {
      unlinkSync(temporary);
    } catch {
      // It never came to be.
    }
    throw cannotWrite(named, reasonOf(error), error);
  }
}

function statOf(named: string, path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    throw cannotWrite(named, reasonOf(error), error);
  }
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'its folder does not exist',
  ENOTDIR: 'a part of its path is not a folder',
  EACCES: 'permission is denied',
  EPERM: 'permission is denied',
  EROFS: 'the file system is read-only',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota is used up',
  ENAMETOOLONG: 'its name is too long',
};

function reasonOf(error: unknown): string {
  return reasons[codeOf(error)] ?? (error instanceof Error ? error.message : String(error));
}

function cannotWrite(named: string, reason: string, cause?: unknown): Failure {
  const full = isDiskFull(cause);
  return new Failure({
    kind: full ? 'missing' : 'input',
    code: full ? 'disk-full' : 'cannot-write',
    fact: `${named} cannot be written: ${reason}.`,
    next: full ? 'Free some space or name another disk.' : 'Name a file that can be written.',
    cause,
  });
}
