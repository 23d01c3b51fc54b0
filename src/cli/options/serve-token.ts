import { linkSync, readFileSync, rmSync, type Stats, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Failure } from '../../failure.js';
import { readReason } from '../../files/system-errors.js';
import { newToken } from '../../server/access/token.js';

/** A token has some 40 letters; what is much longer is another file. */
const maxBytes = 4096;

export interface TokenSource {
  /** Named on the command line, relative to `folder`. */
  readonly file?: string | undefined;
  /** `--no-token`. */
  readonly none: boolean;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
  readonly home: string;
}

/**
 * The token of the file that was named, or of the variable, or that of the home, which is made where
 * there is none. Undefined only where no token was asked for.
 */
export function serveToken({
  file,
  none,
  environment,
  folder,
  home,
}: TokenSource): string | undefined {
  if (none && file !== undefined) throw contradiction();
  if (none) return undefined;
  if (file !== undefined) return readToken(resolve(folder, file), file);
  return environment['PLIMSOLL_TOKEN'] || ownToken(home);
}

/** Returns the path of the token of a home. */
function tokenFile(home: string): string {
  return join(home, 'token');
}

/** The token of a home, for commands of its owner; undefined where there is none that is safe. */
export function tokenOfHome(home: string): string | undefined {
  try {
    return readToken(tokenFile(home), tokenFile(home));
  } catch {
    return undefined;
  }
}

/** Whole or not at all, and the first of two servers that start at once wins. */
function ownToken(home: string): string {
  const path = tokenFile(home);
  if (statSync(path, { throwIfNoEntry: false }) === undefined) {
    const temporary = `${path}.${process.pid}.tmp`;
    try {
      writeFileSync(temporary, `${newToken()}\n`, { mode: 0o600, flag: 'wx', flush: true });
      linkSync(temporary, path);
    } catch (error) {
      if (!isThere(error)) throw badFile(path, readReason(error), error);
    } finally {
      rmSync(temporary, { force: true });
    }
  }
  return readToken(path, path);
}

/** The secret of a file that only its owner can read; `named` is what people call the file. */
export function readToken(path: string, named: string): string {
  const content = contentOf(path, named);
  const token = content.trim();
  if (token === '') throw badFile(named, 'it is empty');
  return token;
}

function contentOf(path: string, named: string): string {
  try {
    const stats = statSync(path);
    // A named pipe would be waited for without end.
    if (!stats.isFile()) throw badFile(named, 'it is not a plain file');
    if (stats.size > maxBytes) throw badFile(named, 'it holds more than a token');
    if (isReadableByOthers(stats)) throw readable(named);
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw badFile(named, readReason(error), error);
  }
}

/**
 * Its group may read a file of root: that is how a container or a service is given a secret. Windows
 * has other permissions.
 */
function isReadableByOthers({ mode, uid }: Stats): boolean {
  if (process.platform === 'win32') return false;
  return (mode & 0o007) !== 0 || ((mode & 0o070) !== 0 && uid !== 0);
}

function isThere(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EEXIST';
}

function badFile(file: string, why: string, cause?: unknown): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-token-file',
    fact: `No token can be read from ${file}: ${why}.`,
    next: 'Make one with: (umask 077; openssl rand -hex 32 > FILE)',
    cause,
  });
}

function readable(file: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'token-file-readable',
    fact: `Other users of this machine can read the token file ${file}.`,
    next: `They may know the token. Make a new one that only you can read: rm ${file}; (umask 077; openssl rand -hex 32 > ${file})`,
  });
}

function contradiction(): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-option',
    fact: '--no-token and --token-file contradict each other.',
    next: 'Leave one of them out.',
  });
}
