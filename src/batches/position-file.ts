import { closeSync, fsyncSync, openSync, renameSync, statSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { Failure } from '../failure.js';
import { readOwnDocument } from '../files/own-file.js';

/** How far a pass over samples has come. */
export interface Position {
  /** Samples that are done: the next one has this number. */
  readonly done: number;
  /** The size that batches had. */
  readonly size: number;
}

/** A position has some 40 bytes; a longer file is something else. */
const longestBytes = 4096;

/** Where a pass stands; undefined before it began. A file that is none of ours is an error. */
export function readPosition(path: string): Position | undefined {
  if (statSync(path, { throwIfNoEntry: false }) === undefined) return undefined;
  const found = readOwnDocument(path, { schema: 1, maxBytes: longestBytes });
  const position = found && positionIn(found);
  if (position !== undefined) return position;
  throw new Failure({
    kind: 'input',
    code: 'bad-position',
    fact: `${path} is not a saved position.`,
    next: 'Name another file, or remove it to start from the beginning.',
  });
}

function positionIn({ done, size }: Readonly<Record<string, unknown>>): Position | undefined {
  if (typeof done !== 'number' || typeof size !== 'number') return undefined;
  const isWhole = Number.isSafeInteger(done) && Number.isSafeInteger(size);
  return isWhole && done >= 0 && size >= 1 ? { done, size } : undefined;
}

/** All of it or nothing, and on the disk when it returns. */
export function writePosition(path: string, { done, size }: Position): void {
  const fresh = `${path}.${process.pid}.tmp`;
  const file = openSync(fresh, 'w');
  try {
    writeSync(file, `${JSON.stringify({ schema: 1, done, size })}\n`);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(fresh, path);
  // The name, too, must be on the disk: a power cut could bring the old one back.
  const folder = openSync(dirname(path), 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
