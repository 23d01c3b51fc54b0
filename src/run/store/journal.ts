import { closeSync, constants, fstatSync, fsyncSync, openSync, writeSync } from 'node:fs';
import { diskFull } from '../../files/disk-full.js';
import { codeOf } from '../../files/error-code.js';
import { readOwnFile } from '../../files/own-file.js';
import { MiB } from '../../units/bytes.js';
import { formatEntry, type JournalEntry, parseEntry } from './journal-entry.js';
import { damagedRun } from './run-failures.js';

/** Thousands of rungs, each with its command, take less; what is larger was not written by us. */
const maxBytes = 256 * MiB;

export interface Journal {
  /** On the disk when it returns. */
  write(entry: JournalEntry): void;
  close(): void;
}

export function openJournal(path: string): Journal {
  const fd = openPlain(path);
  // Half a line may be left by a disk that ran full; what comes next must not be part of it.
  let isTorn = false;
  return {
    write(entry) {
      const line = Buffer.from(`${isTorn ? '\n' : ''}${formatEntry(entry)}\n`);
      isTorn = true;
      if (writeSync(fd, line) < line.length) throw diskFull();
      fsyncSync(fd);
      isTorn = false;
    },
    close: () => closeSync(fd),
  };
}

/** A named pipe of that name would be waited for, and would keep nothing. */
function openPlain(path: string): number {
  const { O_WRONLY, O_APPEND, O_CREAT, O_NONBLOCK } = constants;
  let fd: number;
  try {
    fd = openSync(path, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK, 0o600);
  } catch (error) {
    // EISDIR: a folder; ENXIO: a pipe without a reader.
    if (/^(EISDIR|ENXIO)$/.test(codeOf(error))) throw damagedRun(path);
    throw error;
  }
  if (fstatSync(fd).isFile()) return fd;
  closeSync(fd);
  throw damagedRun(path);
}

/** All whole lines that are entries of ours. */
export function readJournal(path: string): readonly JournalEntry[] {
  const lines = (readOwnFile(path, maxBytes) ?? '').split('\n').slice(0, -1);
  return lines.flatMap((line) => parseEntry(line, path) ?? []);
}
