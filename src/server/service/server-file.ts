import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolder } from '../../files/folders.js';
import { readOwnDocument } from '../../files/own-file.js';

/** The socket of a root server for the accounts of its machine. */
export const usualSocket = '/run/plimsoll/server.sock';

/** A running server's note for the commands of the same home. */
export interface ServerNote {
  readonly url: string;
  readonly pid: number;
  readonly token?: string | undefined;
}

/** Some 200 bytes are written; a file beyond this is not ours. */
const maxBytes = 64 * 1024;

function serverFile(home: string): string {
  return join(home, 'server.json');
}

/** Whole or not at all, and for its owner alone: it may hold the token. */
export function writeServerNote(home: string, note: ServerNote): void {
  makeFolder(home);
  const path = serverFile(home);
  const temporary = `${path}.${process.pid}.tmp`;
  rmSync(temporary, { force: true });
  const descriptor = openSync(temporary, 'wx', 0o600);
  try {
    try {
      writeFileSync(descriptor, `${JSON.stringify({ schema: 1, ...note })}\n`);
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}

/** Undefined where there is none, or where it is no note of ours. */
export function readServerNote(home: string): ServerNote | undefined {
  const { url, pid, token } = readOwnDocument(serverFile(home), { schema: 1, maxBytes }) ?? {};
  if (typeof url !== 'string' || !URL.canParse(url) || typeof pid !== 'number') return undefined;
  if (!Number.isSafeInteger(pid)) return undefined;
  return { url, pid, ...(typeof token === 'string' && { token }) };
}

/** Only the one who wrote it takes it away: another server may have come meanwhile. */
export function removeServerNote(home: string, pid: number): void {
  try {
    if (readServerNote(home)?.pid === pid) rmSync(serverFile(home), { force: true });
  } catch {
    // A newer server has written its own.
  }
}
