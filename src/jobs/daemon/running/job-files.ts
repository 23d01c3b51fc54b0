import { existsSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Failure } from '../../../failure.js';
import { makeFolder } from '../../../files/folders.js';
import { readOwnDocument, readOwnFile } from '../../../files/own-file.js';
import { isDiskFull } from '../../../files/system-errors.js';
import type { KernelPipes } from '../../../run/launch/libc.js';
import { addToLog, droppedNote } from '../../../run/log/log-limit.js';
import { readLogPart } from '../../../run/log/read-log-part.js';
import type { Row } from '../../store/rows.js';
import type { JobHistory, LogAnswer } from '../types.js';

/** Limit of one answer of a log. */
const maxLogBytes = 16 * 1024 * 1024;
/** A thousand points take some 25 KB; more is not ours. */
const maxHistoryBytes = 1024 * 1024;
/** A command and an environment have some MiB at most; JSON writes a character in up to six bytes. */
const maxRecordBytes = 64 * 1024 * 1024;
/** Overwritten in place, always as long as this: a full disk has room for it. */
const lastIdCharacters = 20;

/** The files beside the store: `$PLIMSOLL_HOME/jobs/ID`. */
export class JobFiles {
  readonly #home: string;
  readonly #pipes: KernelPipes | undefined;

  /** `pipes` is what locks a log while a line is added; left out where there is none. */
  constructor(home: string, pipes?: KernelPipes) {
    this.#home = home;
    this.#pipes = pipes;
  }

  log(id: string): string {
    return join(this.#folder(id), 'log');
  }

  logBytes(id: string): number {
    try {
      return statSync(this.log(id)).size;
    } catch {
      return 0;
    }
  }

  /** Before a job is kept whose files would find no place. */
  check(): void {
    makeJobFolders(this.#home);
  }

  /**
   * The highest id that was ever given to a job, as far as the files tell. The store may be older than
   * they are: a backup that was put back, a write-ahead log that was lost.
   */
  highestId(): number {
    const noted = Number(readOwnFile(this.#lastId, lastIdCharacters) ?? 0);
    return Math.max(Number.isSafeInteger(noted) ? noted : 0, Number(this.ids().at(-1) ?? 0));
  }

  /** Ids of the jobs that have a folder, in their order. */
  ids(): readonly string[] {
    return readdirSync(join(this.#home, 'jobs'))
      .filter((name) => /^\d{1,15}$/.test(name))
      .toSorted((a, b) => Number(a) - Number(b));
  }

  /** A new job was given this id. A folder that has its name is of something else: it is moved aside. */
  giveId(id: string, nowMs: number): void {
    try {
      if (existsSync(this.#folder(id))) {
        renameSync(this.#folder(id), `${this.#folder(id)}.before-${nowMs}`);
      }
      const text = id.padEnd(lastIdCharacters);
      const flag = existsSync(this.#lastId) ? 'r+' : 'w';
      writeFileSync(this.#lastId, text, { mode: 0o600, flag });
    } catch {
      // The store has the id; this is for the day on which an older store is put in its place.
    }
  }

  /** The row of a job that is about to start, so that the job is known where the store forgot it. */
  keepRecord(id: string, row: () => Row): void {
    this.#quietly(id, () =>
      this.#writeWhole(this.#record(id), JSON.stringify({ schema: 1, row: row() })),
    );
  }

  readRecord(id: string): Row | undefined {
    try {
      const options = { schema: 1, maxBytes: maxRecordBytes };
      const row = readOwnDocument(this.#record(id), options)?.['row'];
      return typeof row === 'object' && row !== null ? { ...row } : undefined;
    } catch {
      // A newer version wrote it.
      return undefined;
    }
  }

  /** A line in the log replaces a missing part; it is counted in `most`. */
  async readLog(id: string, from: number, most: number): Promise<LogAnswer> {
    const path = this.log(id);
    const part = await readLogPart(path, Math.max(0, from), Math.min(most, maxLogBytes));
    const { bytes, size, next, dropped } = part;
    if (dropped === undefined) return { bytes, size, next };
    const isAtLineStart = from === dropped.from && (await endsLine(path, from));
    // Of what is missing to this reader, who may have read some of it before it went.
    const words = droppedNote({ from, to: dropped.to });
    const note = Buffer.from(isAtLineStart ? words : `\n${words}`);
    const room = Math.max(0, most - note.length);
    const surplus = Math.max(0, bytes.length - room);
    return { bytes: Buffer.concat([note, bytes.subarray(0, room)]), size, next: next - surplus };
  }

  /** A word of ours in the log of a job; a full disk takes none, and nothing depends on it. */
  say(id: string, words: string): void {
    this.#quietly(id, () => addToLog(this.#pipes, this.log(id), `plimsoll: ${words}\n`));
  }

  readHistory(id: string): JobHistory | undefined {
    try {
      const options = { schema: 1, maxBytes: maxHistoryBytes };
      const { epochMs, usedBytes } = readOwnDocument(this.#history(id), options) ?? {};
      return areNumbers(epochMs) && areNumbers(usedBytes) ? { epochMs, usedBytes } : undefined;
    } catch {
      // A newer version drew this curve; the job itself does not depend on it.
      return undefined;
    }
  }

  writeHistory(id: string, history: JobHistory): void {
    const text = JSON.stringify({ schema: 1, ...history });
    this.#quietly(id, () => this.#writeWhole(this.#history(id), text));
  }

  remove(id: string): void {
    rmSync(this.#folder(id), { recursive: true, force: true });
  }

  #quietly(id: string, write: () => void): void {
    try {
      makeFolder(this.#folder(id), 0o700);
      write();
    } catch {
      // The disk is full, or the folder was taken away: the job itself is none the worse for it.
    }
  }

  /** Moved into place: it is found whole or not at all. */
  #writeWhole(file: string, text: string): void {
    try {
      writeFileSync(`${file}.new`, text, { mode: 0o600 });
      renameSync(`${file}.new`, file);
    } finally {
      // On a full disk a part of it would stay.
      rmSync(`${file}.new`, { force: true });
    }
  }

  #history(id: string): string {
    return join(this.#folder(id), 'memory.json');
  }

  #record(id: string): string {
    return join(this.#folder(id), 'job.json');
  }

  get #lastId(): string {
    return join(this.#home, 'last-job-id');
  }

  #folder(id: string): string {
    return join(this.#home, 'jobs', id);
  }
}

/**
 * The folders in which jobs keep their files. Where something else has such a name, no job could
 * start: it is said at once.
 */
export function makeJobFolders(home: string): void {
  for (const path of [join(home, 'jobs'), join(home, 'runs')]) {
    try {
      makeFolder(path, 0o700);
    } catch (error) {
      throw new Failure({
        kind: 'missing',
        code: isDiskFull(error) ? 'disk-full' : 'cannot-keep-state',
        fact: `The folder ${path} cannot be made: ${error instanceof Error ? error.message : String(error)}.`,
        next: isDiskFull(error)
          ? 'Make room on that disk and try again.'
          : 'Move away what has its name, or set PLIMSOLL_HOME to another folder.',
        cause: error,
      });
    }
  }
}

/** Null where nothing was known. */
function areNumbers(value: unknown): value is number[] {
  return (
    Array.isArray(value) && value.every((one: unknown) => one === null || typeof one === 'number')
  );
}

/** Whether what stands before a place is the end of a line. */
async function endsLine(path: string, at: number): Promise<boolean> {
  if (at === 0) return true;
  const { bytes } = await readLogPart(path, at - 1, 1);
  return bytes[0] === 0x0a;
}

/** Private to the user who runs the daemon; or of a run that it is itself part of. */
const withheld: ReadonlySet<string> = new Set([
  'PLIMSOLL_TOKEN',
  'PLIMSOLL_PROMETHEUS_AUTH',
  'PLIMSOLL_RUN_ID',
  'PLIMSOLL_BRIDGE',
  'PLIMSOLL_RUN_DIR',
  'PLIMSOLL_MEMORY_BYTES',
  'PLIMSOLL_AUTO',
]);

/**
 * Returns the daemon's environment for jobs and their supervisors: all of it but its secrets.
 *
 * @example
 * environmentForJobs({ PATH: '/bin', PLIMSOLL_TOKEN: 's3cret' }); // { PATH: '/bin' }
 */
export function environmentForJobs(
  own: Readonly<Record<string, string | undefined>>,
): Readonly<Record<string, string>> {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(own)) {
    if (value !== undefined && !withheld.has(name)) kept[name] = value;
  }
  return kept;
}
