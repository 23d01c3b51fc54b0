import { closeSync, constants, fstatSync, fsyncSync, openSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { Failure } from '../../failure.js';
import { readOwnDocument, readOwnFile } from '../../files/own-file.js';
import { codeOf, diskFull } from '../../files/system-errors.js';
import { MiB } from '../../units/bytes.js';
import { outcomes, type RunReport } from '../types.js';
import { formatEntry, isAttempt, type JournalEntry, parseEntry } from './journal-entry.js';
import { isText, isTexts } from './run-plan.js';

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

/** A file of a run does not hold what we write there. */
export function damagedRun(path: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'damaged-run',
    fact: `${path} is damaged.`,
    next: `If nothing of this run is running, remove its folder: rm -r ${dirname(path)}`,
  });
}

export function unknownRun(id: string, known: readonly string[]): Failure {
  const listed =
    known.length === 0 ? 'There is none.' : `There are ${known.slice(-10).join(', ')}.`;
  return new Failure({
    kind: 'input',
    code: 'unknown-run',
    fact: `There is no unfinished run ${id}.`,
    next: `Unfinished runs: ${listed}`,
  });
}

/** The report that a run left when it ended. */
export function readRunReport(path: string): RunReport {
  const report = readOwnDocument(path, { schema: 1, maxBytes });
  if (report !== undefined && isReport(report)) return report;
  throw damagedRun(path);
}

type Document = Readonly<Record<string, unknown>>;

function isReport(report: Document): report is Document & RunReport {
  const { attempts, exitCode } = report;
  return (
    isText(report['id']) &&
    isTexts(report['command']) &&
    isTexts(report['notes']) &&
    outcomes.some((outcome) => outcome === report['outcome']) &&
    (exitCode === 'unknown' || typeof exitCode === 'number') &&
    Array.isArray(attempts) &&
    attempts.every(isAttempt)
  );
}
