import { Failure, type FailureKind } from '../../failure.js';
import { isDiskFull } from '../../files/system-errors.js';

type Code =
  | 'store-in-use'
  | 'foreign-store'
  | 'broken-store'
  | 'newer-store'
  | 'disk-full'
  | 'store-unreachable';

const words: Readonly<Record<Code, readonly [FailureKind, string, string]>> = {
  'store-in-use': [
    'input',
    'is in use by another process.',
    'Stop the other "plimsoll serve", or set PLIMSOLL_HOME to another folder.',
  ],
  'foreign-store': [
    'input',
    'is not a store of plimsoll; it was left as it is.',
    'Move it away, or set PLIMSOLL_HOME to another folder.',
  ],
  'broken-store': [
    'input',
    'is damaged.',
    'Restore it from a backup, or move it away (with its -wal file) to start with an empty one.',
  ],
  'newer-store': [
    'input',
    'was written by a newer plimsoll; it was left as it is.',
    'Install that version, or set PLIMSOLL_HOME to another folder.',
  ],
  'disk-full': [
    'missing',
    'cannot be written: the disk is full. Nothing of this change was kept.',
    'Make room on that disk and try again.',
  ],
  'store-unreachable': [
    'missing',
    'cannot be opened, read or written.',
    'Check that its folder exists, on a local disk, and belongs to you.',
  ],
};

/** Whether it is about the store, and not about what somebody asked of it. */
export function isOfStore({ code }: Failure): boolean {
  return code in words;
}

/** Of SQLite's results, those with a next step of their own. The rest is `store-unreachable`. */
const results: Readonly<Record<number, Code>> = {
  5: 'store-in-use',
  6: 'store-in-use',
  11: 'broken-store',
  13: 'disk-full',
  26: 'broken-store',
};
/** SQLite's own mistakes of use are bugs of ours, and must look like them. */
const bugs: ReadonlySet<number> = new Set([18, 19, 20, 21, 25]);

export function storeFailure(code: Code, path: string, cause?: unknown): Failure {
  const [kind, fact, next] = words[code];
  const why = cause instanceof Error ? ` (${cause.message})` : '';
  return new Failure({ kind, code, fact: `The store ${path} ${fact}${why}`, next, cause });
}

/** Messages of SQLite, for errors that come without a number. */
const messages: readonly (readonly [RegExp, number])[] = [
  [/malformed/, 11],
  [/not a database/, 26],
  [/disk is full/, 13],
  [/locked/, 5],
];

/** An error of SQLite or of the file system as one that a person can act on. */
export function failureOf(error: unknown, path: string): unknown {
  if (error instanceof Failure || !(error instanceof Error) || !('code' in error)) return error;
  if (error.code === 'ERR_SQLITE_ERROR') {
    const result = resultOf(error);
    if (bugs.has(result)) return error;
    // A table that is missing is damage of another kind.
    const code = results[result] ?? (result === 1 ? 'broken-store' : 'store-unreachable');
    return storeFailure(code, path, error);
  }
  if (!('syscall' in error)) return error;
  return storeFailure(isDiskFull(error) ? 'disk-full' : 'store-unreachable', path, error);
}

/** The low byte of its number; the rest is details. */
function resultOf(error: Error): number {
  if ('errcode' in error && typeof error.errcode === 'number') return error.errcode & 0xff;
  return messages.find(([pattern]) => pattern.test(error.message))?.[1] ?? 0;
}
