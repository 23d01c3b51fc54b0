import { closeSync, fstatSync, openSync, readdirSync, readSync, statSync } from 'node:fs';
import { Failure } from '../../failure.js';
import { readReason } from '../../files/system-errors.js';
import type { ByteSource } from './byte-reader.js';

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
    throw noFile(path, readReason(error), error);
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
      throw noFile(path, readReason(error), error);
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
    throw noFile(path, readReason(error), error);
  }
}

/** Names in a folder, sorted. */
export function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder).toSorted();
  } catch (error) {
    throw noFile(folder, readReason(error), error);
  }
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
