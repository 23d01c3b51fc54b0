import { createReadStream, existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MiB } from '../../units/bytes.js';
import type { StartAs } from './run-python.js';

/** A folder for a trace's temporary files, and the reader of the files left there. */
export interface TracePlace {
  readonly folder: string;
  /** Starts it as another account. */
  readonly startAs?: StartAs | undefined;
  has(file: string): Promise<boolean>;
  read(file: string): AsyncIterable<string>;
  /** Removes the folder, and ends what is left of the program. */
  close(): Promise<void>;
}

/** Files of the account that this process runs as. */
export const ownFiles: Pick<TracePlace, 'has' | 'read'> = {
  has: (file) => Promise.resolve(existsSync(file)),
  // Much at a time: a trace has up to hundreds of MiB.
  read: (file) => createReadStream(file, { encoding: 'utf8', highWaterMark: MiB }),
};

/** A folder of that account. */
export async function ownPlace(): Promise<TracePlace> {
  const folder = await mkdtemp(join(tmpdir(), 'plimsoll-trace-'));
  return {
    folder,
    ...ownFiles,
    close: () => rm(folder, { recursive: true, force: true, maxRetries: 5 }),
  };
}
