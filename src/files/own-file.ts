import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { Failure } from '../failure.js';

/**
 * The text of a file that we wrote; undefined where there is none, or something else has its name. A
 * named pipe would be waited for without end, so only plain files are read, and only up to a size.
 */
export function readOwnFile(path: string, maxBytes: number): string | undefined {
  let file: number;
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch {
    return undefined;
  }
  try {
    const stats = fstatSync(file);
    return stats.isFile() && stats.size <= maxBytes ? readFileSync(file, 'utf8') : undefined;
  } catch {
    return undefined;
  } finally {
    closeSync(file);
  }
}

/**
 * The object that a file of ours holds; undefined where it holds none. One of a newer schema is
 * refused: what it means is not known here. Files from before schemas have the first.
 */
export function readOwnDocument(
  path: string,
  { schema, maxBytes }: { readonly schema: number; readonly maxBytes: number },
): Readonly<Record<string, unknown>> | undefined {
  const document = parseObject(readOwnFile(path, maxBytes) ?? '');
  if (document !== undefined) checkSchema(document, schema, path);
  return document;
}

/** The object in a text; undefined for anything else. */
export function parseObject(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? { ...value }
      : undefined;
  } catch {
    return undefined;
  }
}

/** Refuses what a newer version wrote. */
export function checkSchema(
  document: Readonly<Record<string, unknown>>,
  known: number,
  path: string,
): void {
  const { schema = 1 } = document;
  if (typeof schema === 'number' && schema <= known) return;
  throw new Failure({
    kind: 'input',
    code: 'newer-file',
    fact: `${path} was written by a newer plimsoll: its schema is ${JSON.stringify(schema).slice(0, 20)}, and this version reads up to ${known}.`,
    next: 'Use that version, or set PLIMSOLL_HOME to another folder.',
  });
}
