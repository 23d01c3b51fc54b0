import { createReadStream, existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { StartAs } from './run-python.js';

/** Where a program is traced: a folder for what it puts aside, and who reads what it left there. */
export interface TracePlace {
  readonly folder: string;
  /** Starts it as another account. */
  readonly startAs?: StartAs | undefined;
  has(file: string): Promise<boolean>;
  read(file: string): AsyncIterable<string>;
  /** Removes the folder, and ends what is left of the program. */
  close(): Promise<void>;
}

/** A folder of the account that this process runs as. */
export async function ownPlace(): Promise<TracePlace> {
  const folder = await mkdtemp(join(tmpdir(), 'plimsoll-trace-'));
  return {
    folder,
    has: (file) => Promise.resolve(existsSync(file)),
    read: (file) => createReadStream(file, 'utf8'),
    close: () => rm(folder, { recursive: true, force: true, maxRetries: 5 }),
  };
}
