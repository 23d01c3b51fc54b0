import { randomBytes } from 'node:crypto';
import { readdirSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Estimate } from '../../estimate/types.js';
import { makeFolder, packageFolder } from '../../files/folders.js';
import { readOwnFile } from '../../files/own-file.js';
import { MiB } from '../../units/bytes.js';

/** An answer from an earlier call. */
export interface KeptAnswer {
  /** When it was made, in UTC. */
  readonly at: string;
  readonly answer: unknown;
}

/** Raised when an answer has other fields, so that older ones are made again. */
const schema = 2;
/** An estimate takes 5 to 30 kB, a plan about 100; what is larger is not one of ours. */
const largestBytes = MiB;
/** Some weeks of work; 256 plans are about 25 MB. */
const maxAnswers = 256;
/** A file that was not renamed by then was left by a process that died. */
const abandonedMs = 3_600_000;
const keyFormat = /^[\da-f]{64}$/;
const ending = '.json';

/**
 * Answers in files, one for each question, the most recently used ones. Whatever is wrong with a file
 * or the folder only means that the question is answered again.
 *
 * @example
 * const kept = new KeptAnswers('/srv/plimsoll/answers');
 * kept.write(key, answer, new Date());
 * kept.read(key)?.answer;
 */
export class KeptAnswers {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  read(key: string): KeptAnswer | undefined {
    const path = this.#path(key);
    try {
      const found: unknown = JSON.parse(readOwnFile(path, largestBytes) ?? 'null');
      const field = (name: string): unknown => Reflect.get(Object(found), name);
      const at = field('at');
      if (field('schema') !== schema || field('key') !== key || typeof at !== 'string') {
        return undefined;
      }
      this.#touch(path);
      return { at, answer: field('answer') };
    } catch {
      return undefined;
    }
  }

  write(key: string, answer: unknown, now: Date): void {
    const text = JSON.stringify({ schema, key, at: now.toISOString(), answer });
    if (Buffer.byteLength(text) > largestBytes) return;
    const path = this.#path(key);
    // Another process may write the same answer: each has a file of its own until it is whole.
    const part = `${path}.${randomBytes(6).toString('hex')}`;
    try {
      makeFolder(this.#folder, 0o700);
      writeFileSync(part, text, { mode: 0o600, flag: 'wx' });
      renameSync(part, path);
      this.#prune(now);
    } catch {
      // A full or read-only disk must not cost the answer that was just made.
      removed(part);
    }
  }

  #path(key: string): string {
    if (!keyFormat.test(key)) throw new RangeError(`not a key: ${key}`);
    return join(this.#folder, `${key}${ending}`);
  }

  /** The time of its change is that of its last use. */
  #touch(path: string): void {
    try {
      const now = new Date();
      utimesSync(path, now, now);
    } catch {
      // It may belong to someone else; then it only goes earlier.
    }
  }

  #prune(now: Date): void {
    const files = readdirSync(this.#folder).map((name) => {
      const path = join(this.#folder, name);
      return { path, usedMs: statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0 };
    });
    const [whole, parts] = [
      files.filter(({ path }) => path.endsWith(ending)),
      files.filter(({ path }) => !path.endsWith(ending)),
    ];
    const oldest = whole.toSorted((a, b) => b.usedMs - a.usedMs).slice(maxAnswers);
    const abandoned = parts.filter(({ usedMs }) => now.getTime() - usedMs > abandonedMs);
    for (const { path } of [...oldest, ...abandoned]) removed(path);
  }
}

function removed(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // Its folder is not one, or belongs to someone else.
  }
}

/** Whether it has all that is shown of an estimate; a file may have been edited. */
export function isWholeEstimate(value: unknown): value is Estimate {
  try {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- looked at field by field here
    const { method, peak, interval, breakdown, notes } = value as Estimate;
    const figures = [...Object.values(peak), interval.lowBytes, interval.highBytes];
    return (
      method === 'trace' &&
      figures.length === 6 &&
      figures.every((bytes) => Number.isSafeInteger(bytes)) &&
      breakdown.every(({ bytes }) => Number.isSafeInteger(bytes)) &&
      Array.isArray(notes)
    );
  } catch {
    return false;
  }
}

/** Our own programs: a build or an update that keeps the version answers anew. */
export function ownFiles(): readonly string[] {
  return ['dist/cli', 'python/plimsoll', 'python/plimsoll_trace'].flatMap((name) => {
    const folder = join(packageFolder, name);
    try {
      const files = readdirSync(folder, { recursive: true, encoding: 'utf8' });
      return files
        .filter((file) => /\.(js|py)$/.test(file))
        .toSorted()
        .map((file) => {
          const { size, mtimeMs } = statSync(join(folder, file));
          return `${name}/${file} ${size} ${mtimeMs}`;
        });
    } catch {
      return [];
    }
  });
}
