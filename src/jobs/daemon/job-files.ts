import {
  appendFileSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import type { JobHistory } from './contract.js';

/** What one answer holds of a log at most. */
const mostLogBytes = 16 * 1024 * 1024;
/** A thousand points take some 25 KB; more is not ours. */
const mostHistoryBytes = 1024 * 1024;

/** What lies beside the store: `$PLIMSOLL_HOME/jobs/ID`. */
export class JobFiles {
  readonly #home: string;

  constructor(home: string) {
    this.#home = home;
  }

  log(id: string): string {
    return join(this.#folder(id), 'log');
  }

  logBytes(id: string): number {
    return statSync(this.log(id), { throwIfNoEntry: false })?.size ?? 0;
  }

  async readLog(
    id: string,
    from: number,
    most: number,
  ): Promise<{ bytes: Uint8Array; size: number }> {
    const size = this.logBytes(id);
    const start = Math.max(0, Math.min(from, size));
    const length = Math.max(0, Math.min(most, mostLogBytes, size - start));
    if (length === 0) return { bytes: new Uint8Array(), size };
    const file = await open(this.log(id), 'r');
    try {
      const bytes = new Uint8Array(length);
      const { bytesRead } = await file.read(bytes, 0, length, start);
      return { bytes: bytes.subarray(0, bytesRead), size };
    } finally {
      await file.close();
    }
  }

  /** A word of ours in the log of a job; a full disk takes none, and nothing depends on it. */
  say(id: string, words: string): void {
    this.#quietly(id, () => appendFileSync(this.log(id), `plimsoll: ${words}\n`, { mode: 0o600 }));
  }

  readHistory(id: string): JobHistory | undefined {
    try {
      if (statSync(this.#history(id)).size > mostHistoryBytes) return undefined;
      const history: JobHistory = JSON.parse(readFileSync(this.#history(id), 'utf8'));
      return Array.isArray(history.epochMs) && Array.isArray(history.usedBytes)
        ? history
        : undefined;
    } catch {
      return undefined;
    }
  }

  writeHistory(id: string, history: JobHistory): void {
    const file = this.#history(id);
    this.#quietly(id, () => {
      writeFileSync(`${file}.new`, JSON.stringify(history), { mode: 0o600 });
      renameSync(`${file}.new`, file);
    });
  }

  remove(id: string): void {
    rmSync(this.#folder(id), { recursive: true, force: true });
  }

  #quietly(id: string, write: () => void): void {
    try {
      mkdirSync(this.#folder(id), { recursive: true, mode: 0o700 });
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
