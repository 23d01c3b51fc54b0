import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import type { Known } from '../../units/known.js';
import type { NextAttempt } from '../ladder/climb.js';
import type { LimitCgroup } from '../limit/cgroup.js';
import type { Attempt, ClimbedRung, EnforcedLimit, Outcome, RunSettings } from '../types.js';

/** An attempt begins. */
export interface StartedEntry {
  readonly type: 'started';
  readonly at: string;
  readonly number: number;
  readonly settings: RunSettings;
  readonly command: readonly string[];
  readonly limit: EnforcedLimit;
  readonly cgroup: LimitCgroup | null;
  /** The kernel's count of kills when it began. */
  readonly killsBefore: Known<number>;
}

/** What happens to a run, in the order in which it did. A line is there when it has happened. */
export type JournalEntry =
  | StartedEntry
  | { readonly type: 'climbed'; readonly number: number; readonly rung: ClimbedRung }
  | { readonly type: 'stopped'; readonly at: string; readonly signal: string }
  | { readonly type: 'attached'; readonly at: string; readonly pid: number }
  | { readonly type: 'ended'; readonly attempt: Attempt; readonly next: NextAttempt | null }
  | {
      readonly type: 'finished';
      readonly at: string;
      readonly outcome: Outcome;
      readonly exitCode: Known<number>;
    };

export interface Journal {
  /** On the disk when it returns. */
  write(entry: JournalEntry): void;
  close(): void;
}

export function openJournal(path: string): Journal {
  const fd = openSync(path, 'a', 0o600);
  // Half a line may be left by a disk that ran full; what comes next must not be part of it.
  let isTorn = false;
  return {
    write(entry) {
      const line = Buffer.from(`${isTorn ? '\n' : ''}${JSON.stringify(entry)}\n`);
      isTorn = true;
      if (writeSync(fd, line) < line.length) throw diskFull();
      fsyncSync(fd);
      isTorn = false;
    },
    close: () => closeSync(fd),
  };
}

/** A write that was cut without an error: the next one would have had it. */
function diskFull(): Error {
  return Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
}

export function isDiskFull(error: unknown): boolean {
  return error instanceof Error && 'code' in error && /^(ENOSPC|EDQUOT)$/.test(String(error.code));
}

/** All whole lines; one that was cut by a crash never happened. */
export function readJournal(path: string): readonly JournalEntry[] {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch {
    return [];
  }
  const entries: JournalEntry[] = [];
  for (const line of text.split('\n').slice(0, -1)) {
    try {
      const entry: JournalEntry = JSON.parse(line);
      entries.push(entry);
    } catch {
      // A write that was cut, with another after it.
    }
  }
  return entries;
}
