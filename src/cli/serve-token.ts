import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { Failure } from '../failure.js';

/** A token has some 40 letters; what is much longer is another file. */
const mostBytes = 4096;

/** The token of the file that was named, or of the variable; undefined where there is none. */
export function serveToken(
  file: string | undefined,
  environment: Readonly<Record<string, string | undefined>>,
  folder: string,
): string | undefined {
  if (file === undefined) return environment['PLIMSOLL_TOKEN'] || undefined;
  const token = contentOf(resolve(folder, file), file).trim();
  if (token === '') throw badFile(file, 'it is empty');
  return token;
}

function contentOf(path: string, named: string): string {
  try {
    if (statSync(path).size > mostBytes) throw badFile(named, 'it holds more than a token');
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw badFile(named, error instanceof Error ? error.message : String(error), error);
  }
}

function badFile(file: string, why: string, cause?: unknown): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-token-file',
    fact: `No token can be read from ${file}: ${why}.`,
    next: 'Make one with: openssl rand -hex 32 > FILE',
    cause,
  });
}
