import { closeSync, fstatSync, openSync, readdirSync, readSync, statSync } from 'node:fs';
import { Failure } from '../../failure.js';
import type { ByteSource } from './byte-source.js';

/**
 * Lends a file for reading and closes it again. Only plain files are opened: a pipe would wait for
 * a writer for ever.
 *
 * Reads are synchronous: a header is some pages at the front of a file, taken in a few calls.
 */
export function withFile<T>(path: string, use: (source: ByteSource) => T): T {
  const kind = kindOfPath(path);
  if (kind !== 'file')
    throw noFile(path, kind === 'folder' ? 'it is a folder' : 'it is not a plain file');
  let descriptor: number;
  try {
    descriptor = openSync(path, 'r');
  } catch (error) {
    throw noFile(path, reason(error), error);
  }
  try {
    return use(sourceOf(descriptor, path));
  } finally {
    closeSync(descriptor);
  }
}

function sourceOf(descriptor: number, path: string): ByteSource {
  const guarded = <T>(call: () => T): T => {
    try {
      return call();
    } catch (error) {
      throw noFile(path, reason(error), error);
    }
  };
  return {
    size: guarded(() => fstatSync(descriptor).size),
    read: (into, position) => guarded(() => readSync(descriptor, into, 0, into.length, position)),
  };
}

/** What lies at a path. A `Failure` (`no-file`) where nothing does, or it may not be seen. */
export function kindOfPath(path: string): 'file' | 'folder' | 'other' {
  try {
    const stats = statSync(path);
    if (stats.isFile()) return 'file';
    return stats.isDirectory() ? 'folder' : 'other';
  } catch (error) {
    throw noFile(path, reason(error), error);
  }
}

/** Names in a folder, sorted. */
export function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder).toSorted();
  } catch (error) {
    throw noFile(folder, reason(error), error);
  }
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file or folder',
  ENOTDIR: 'a part of its path is not a folder',
  EACCES: 'permission is denied',
  EPERM: 'permission is denied',
  ELOOP: 'it is a link that leads back to itself',
  ENAMETOOLONG: 'its name is too long',
  EIO: 'the disk gives an error',
};

function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return ('code' in error ? reasons[String(error.code)] : undefined) ?? error.message;
}

function noFile(path: string, why: string, cause?: unknown): Failure {
  return new Failure({
    kind: 'input',
    code: 'no-file',
    fact: `${path} cannot be read: ${why}.`,
    next: 'Check the path and its permissions; nothing is downloaded.',
    cause,
  });
}
