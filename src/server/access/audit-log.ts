import {
  closeSync,
  constants,
  fstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  statSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';

/** An action with its user, allowed or refused. */
export interface AuditEntry {
  readonly at: string;
  /** `unknown` where the credentials name no user. */
  readonly who: string;
  /** How he was known. */
  readonly via: 'token' | 'session' | 'socket' | 'link' | 'command' | 'none';
  /** The address, or the uid on the local socket. */
  readonly from: string;
  /** `submit`, `cancel`, `login`; of what is listed only when it is refused, the id of the operation. */
  readonly action: string;
  readonly outcome: 'done' | 'refused';
  /** The error's code, of what was refused. */
  readonly code?: string | undefined;
  readonly job?: string | undefined;
  /** Of a change of users: whom, and what. */
  readonly about?: string | undefined;
}

/** Fields that a request adds to its entry. */
export type AuditParts = Partial<Pick<AuditEntry, 'job' | 'who' | 'via' | 'outcome' | 'code'>>;

/** Some 50,000 entries; so many files of that size are kept. */
const fileBytes = 8 * 1024 * 1024;
const keptFiles = 5;
/**
 * Entries in a minute that tell of no job that was changed: refusals and logins, of each person and of
 * all strangers together. They must not push out what others did.
 */
const maxIdle = 30;
const windowMs = 60_000;
/** More than have a token or an account; then those go whose minute is over. */
const countedPeople = 1000;

export function auditFile(home: string, age = 0): string {
  return join(home, age === 0 ? 'audit.jsonl' : `audit.${age}.jsonl`);
}

/**
 * Adds an entry. One call writes one whole line, so several processes may write at the same time, and
 * a process that is killed leaves no half line behind.
 */
export function appendAudit(home: string, entry: AuditEntry): void {
  const path = auditFile(home);
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const { O_APPEND, O_CREAT, O_WRONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  const fd = openSync(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o600);
  try {
    if (!fstatSync(fd).isFile()) throw new Error(`${path} is no plain file`);
    writeSync(fd, `${JSON.stringify(entry)}\n`);
  } finally {
    closeSync(fd);
  }
}

/** The entries that are kept, the oldest first. What is no entry is left out. */
export function readAudit(home: string, most: number): readonly AuditEntry[] {
  const entries: AuditEntry[] = [];
  for (let age = 0; age < keptFiles && entries.length < most; age++) {
    const text = textOf(auditFile(home, age));
    if (text === undefined) break;
    entries.unshift(...text.split('\n').flatMap(entryOf));
  }
  return entries.slice(-most);
}

function textOf(path: string): string | undefined {
  try {
    const stats = statSync(path);
    // A file of twice the size was not written by us.
    return stats.isFile() && stats.size <= 2 * fileBytes ? readFileSync(path, 'utf8') : undefined;
  } catch {
    return undefined;
  }
}

function entryOf(line: string): readonly AuditEntry[] {
  try {
    const entry: AuditEntry = JSON.parse(line);
    return typeof entry?.at === 'string' && typeof entry.who === 'string' ? [entry] : [];
  } catch {
    return [];
  }
}

/** It changed nothing. */
function isIdle({ outcome, job }: Pick<AuditEntry, 'outcome' | 'job'>): boolean {
  return outcome === 'refused' || job === undefined;
}

/** A user may have any name, also one that stands for strangers: those came without credentials. */
function personOf({ who, via }: Pick<AuditEntry, 'who' | 'via'>): string {
  return via === 'none' ? '' : who;
}

/** The log of a server: only the server, of which a home has one, turns the files over. */
export class AuditLog {
  readonly #home: string;
  readonly #epochMs: () => number;
  readonly #trouble: (line: string) => void;
  readonly #idle = new Map<string, { readonly sinceMs: number; readonly count: number }>();
  #isFailing = false;

  constructor(options: {
    readonly home: string;
    readonly epochMs: () => number;
    /** Told once each time that it can no longer be written: what was asked for is done all the same. */
    readonly trouble: (line: string) => void;
  }) {
    this.#home = options.home;
    this.#epochMs = options.epochMs;
    this.#trouble = options.trouble;
  }

  write(entry: Omit<AuditEntry, 'at'>): void {
    if (isIdle(entry) && !this.#takes(personOf(entry))) return;
    try {
      this.#turnOver();
      appendAudit(this.#home, { at: new Date(this.#epochMs()).toISOString(), ...entry });
      this.#isFailing = false;
    } catch (error) {
      if (this.#isFailing) return;
      this.#isFailing = true;
      const why = error instanceof Error ? error.message : String(error);
      this.#trouble(`plimsoll: the audit log cannot be written: ${why}`);
    }
  }

  #takes(person: string): boolean {
    const now = this.#epochMs();
    const isOver = ({ sinceMs }: { readonly sinceMs: number }): boolean =>
      Math.abs(now - sinceMs) >= windowMs;
    const before = this.#idle.get(person);
    if (before !== undefined && !isOver(before)) {
      this.#idle.set(person, { ...before, count: before.count + 1 });
      return before.count < maxIdle;
    }
    if (this.#idle.size >= countedPeople) {
      for (const [one, counted] of this.#idle) if (isOver(counted)) this.#idle.delete(one);
    }
    this.#idle.set(person, { sinceMs: now, count: 1 });
    return true;
  }

  #turnOver(): void {
    const size = statSync(auditFile(this.#home), { throwIfNoEntry: false })?.size ?? 0;
    if (size < fileBytes) return;
    for (let age = keptFiles - 1; age > 0; age--) {
      const younger = auditFile(this.#home, age - 1);
      if (statSync(younger, { throwIfNoEntry: false }) === undefined) continue;
      renameSync(younger, auditFile(this.#home, age));
    }
  }
}
