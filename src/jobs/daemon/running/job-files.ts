import { renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Failure } from '../../../failure.js';
import { isDiskFull } from '../../../files/disk-full.js';
import { makeFolder } from '../../../files/make-folder.js';
import { readOwnDocument } from '../../../files/own-file.js';
import type { KernelPipes } from '../../../run/launch/libc.js';
import { droppedNote } from '../../../run/log/dropped-note.js';
import { addToLog } from '../../../run/log/log-lock.js';
import { readLogPart } from '../../../run/log/read-log-part.js';
import type { JobHistory, LogAnswer } from '../types.js';

/** What one answer holds of a log at most. */
const maxLogBytes = 16 * 1024 * 1024;
/** A thousand points take some 25 KB; more is not ours. */
const maxHistoryBytes = 1024 * 1024;

/** What lies beside the store: `$PLIMSOLL_HOME/jobs/ID`. */
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

  /** Where a part is missing, a line says so in its place; it is counted in `most`. */
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
    const file = this.#history(id);
    this.#quietly(id, () => {
      try {
        writeFileSync(`${file}.new`, JSON.stringify({ schema: 1, ...history }), { mode: 0o600 });
        renameSync(`${file}.new`, file);
      } finally {
        // On a full disk a part of it would stay.
        rmSync(`${file}.new`, { force: true });
      }
    });
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

  #history(id: string): string {
    return join(this.#folder(id), 'memory.json');
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
