import { randomBytes } from 'node:crypto';
import {
  closeSync,
  fsyncSync,
  linkSync,
  openSync,
  readdirSync,
  renameSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';

/** How the name of a file ends that is being written. A folder may show one at any moment, and not a moment later. */
const unfinished = '.tmp';

/** The files of a folder that are whole. */
export function wholeFiles(folder: string): readonly string[] {
  return readdirSync(folder).filter((name) => !name.endsWith(unfinished));
}

/** Takes the place of what was there, at once: a reader on another node sees the old or the new one. */
export function writeWhole(path: string, document: object): void {
  const temporary = writeBeside(path, document);
  renameSync(temporary, path);
}

/** Whether this call made the file. A link to a name that is taken fails on every file system. */
export function writeOnce(path: string, document: object): boolean {
  const temporary = writeBeside(path, document);
  try {
    linkSync(temporary, path);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  } finally {
    unlinkSync(temporary);
  }
}

function writeBeside(path: string, document: object): string {
  const temporary = `${path}.${randomBytes(6).toString('hex')}${unfinished}`;
  const file = openSync(temporary, 'wx', 0o600);
  try {
    writeFileSync(file, `${JSON.stringify(document)}\n`);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  return temporary;
}
