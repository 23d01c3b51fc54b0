import { closeSync, openSync, readSync, statSync } from 'node:fs';
import { type JournalEntry, parseEntry } from '../../run/store/journal-entry.js';

/** Read at a time; a journal of thousands of rungs takes a few rounds. */
const chunkBytes = 256 * 1024;
/** An entry repeats its command, which may have 256 KiB, and its rungs. A longer line is damage. */
const longestLineBytes = 4 * 1024 * 1024;

/** Reads what was added to a run's journal since the last time. */
export class JournalTail {
  readonly #path: string;
  #at = 0;
  #rest: Buffer = Buffer.alloc(0);

  constructor(path: string) {
    this.#path = path;
  }

  /** All lines that are whole by now; a last one that is not waits for the next time. */
  read(): readonly JournalEntry[] {
    const size = statSync(this.#path, { throwIfNoEntry: false })?.size ?? 0;
    // A named pipe has no size: it is never opened, and so never waited for.
    if (size <= this.#at) return [];
    const entries: JournalEntry[] = [];
    const before = [this.#at, this.#rest] as const;
    const fd = openSync(this.#path, 'r');
    try {
      for (;;) {
        const buffer = Buffer.alloc(chunkBytes);
        const count = readSync(fd, buffer, 0, chunkBytes, this.#at);
        if (count === 0) return entries;
        this.#at += count;
        this.#take(buffer.subarray(0, count), entries);
      }
    } catch (error) {
      // A newer version wrote it: it is refused again at the next look, and nothing is passed over.
      [this.#at, this.#rest] = before;
      throw error;
    } finally {
      closeSync(fd);
    }
  }

  #take(bytes: Buffer, entries: JournalEntry[]): void {
    const all = Buffer.concat([this.#rest, bytes]);
    let from = 0;
    for (let end = all.indexOf(10); end !== -1; end = all.indexOf(10, from)) {
      const entry = parseEntry(all.toString('utf8', from, end), this.#path);
      if (entry !== undefined) entries.push(entry);
      from = end + 1;
    }
    this.#rest = all.length - from > longestLineBytes ? Buffer.alloc(0) : all.subarray(from);
  }
}
