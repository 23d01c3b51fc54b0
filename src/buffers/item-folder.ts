import { createHash } from 'node:crypto';
import {
  closeSync,
  fstatSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writevSync,
} from 'node:fs';
import { join } from 'node:path';
import { Failure } from '../failure.js';
import { makeFolder } from '../files/folders.js';
import {
  type BufferRecord,
  headerBytes,
  layoutOf,
  prefixBytes,
  type RecordLayout,
} from './record.js';
import { rawBytesOf } from './value.js';

const itemName = /^[0-9a-f]{32}\.buffer$/;
const unfinishedName = /^[0-9a-f]{32}\.(\d{1,10})\.tmp$/;
/** writev takes no more pieces at once on Linux. */
const maxPieces = 1024;

/** An item found in a file, and its bytes there. */
export interface FoundItem {
  readonly key: string;
  readonly fileBytes: number;
  readonly rawBytes: number;
}

/**
 * One file an item. A file gets its name when it is whole, so a process that is killed leaves either
 * the old item, the new one, or a file that the next one removes.
 */
export class ItemFolder {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
    try {
      makeFolder(folder);
    } catch (error) {
      throw cannotWrite(folder, error);
    }
  }

  /** The items that are there, oldest first. Unfinished and damaged files are removed. */
  open(): { items: FoundItem[]; damaged: number } {
    const found: { item: FoundItem; changed: number }[] = [];
    let damaged = 0;
    for (const name of readdirSync(this.#folder)) {
      const writer = unfinishedName.exec(name)?.[1];
      if (writer !== undefined && !isAlive(Number(writer))) this.#remove(name);
      if (!itemName.test(name)) continue;
      const layout = this.#withFile(name, readLayout);
      if (layout !== undefined && itemFile(layout.key) === name) {
        const { mtimeMs: changed } = statSync(join(this.#folder, name));
        found.push({ item: about(layout), changed });
      } else {
        damaged += 1;
        this.#remove(name);
      }
    }
    found.sort((one, other) => one.changed - other.changed);
    return { items: found.map(({ item }) => item), damaged };
  }

  /** Writes the pieces of a record. When it returns, the file is complete. */
  write(key: string, pieces: readonly Uint8Array[]): void {
    const name = itemFile(key);
    const unfinished = join(this.#folder, name.replace('.buffer', `.${process.pid}.tmp`));
    try {
      const file = openSync(unfinished, 'w', 0o600);
      try {
        writeWhole(file, pieces);
      } finally {
        closeSync(file);
      }
      renameSync(unfinished, join(this.#folder, name));
    } catch (error) {
      rmSync(unfinished, { force: true });
      throw cannotWrite(this.#folder, error);
    }
  }

  /** The record of a key as its file holds it; undefined where it is gone or damaged. */
  read(key: string): BufferRecord | undefined {
    return this.#withFile(itemFile(key), (file) => {
      const layout = readLayout(file);
      if (layout?.key !== key) return undefined;
      let next = 0;
      const parts = layout.parts.map(({ planes, ...part }) => ({
        ...part,
        planes: planes.map(({ codec, bytes, crc }) => {
          const read = readAt(file, layout.offsets[next++] ?? 0, bytes);
          return { codec, crc, bytes: read };
        }),
      }));
      return { key, dictionary: layout.dictionary, parts };
    });
  }

  remove(key: string): void {
    this.#remove(itemFile(key));
  }

  #remove(name: string): void {
    rmSync(join(this.#folder, name), { force: true });
  }

  #withFile<T>(name: string, act: (file: number) => T): T | undefined {
    let file: number;
    try {
      file = openSync(join(this.#folder, name), 'r');
    } catch {
      return undefined;
    }
    try {
      return act(file);
    } catch {
      return undefined;
    } finally {
      closeSync(file);
    }
  }
}

function about({ key, parts, totalBytes }: RecordLayout): FoundItem {
  const rawBytes = parts.reduce((sum, part) => sum + rawBytesOf(part), 0);
  return { key, fileBytes: totalBytes, rawBytes };
}

function readLayout(file: number): RecordLayout | undefined {
  const header = headerBytes(readAt(file, 0, prefixBytes));
  if (header === undefined) return undefined;
  const layout = layoutOf(readAt(file, prefixBytes, header.length), header.crc);
  return layout?.totalBytes === fstatSync(file).size ? layout : undefined;
}

function readAt(file: number, at: number, length: number): Uint8Array {
  const out = new Uint8Array(length);
  let done = 0;
  while (done < length) {
    const read = readSync(file, out, done, length - done, at + done);
    if (read === 0) break;
    done += read;
  }
  return out.subarray(0, done);
}

function writeWhole(file: number, pieces: readonly Uint8Array[]): void {
  let waiting = pieces.filter(({ length }) => length > 0);
  while (waiting.length > 0) {
    let written = writevSync(file, waiting.slice(0, maxPieces));
    while (waiting[0] !== undefined && written >= waiting[0].length) {
      written -= waiting[0].length;
      waiting = waiting.slice(1);
    }
    if (waiting[0] !== undefined) waiting = [waiting[0].subarray(written), ...waiting.slice(1)];
  }
}

function itemFile(key: string): string {
  return `${createHash('sha256').update(key).digest('hex').slice(0, 32)}.buffer`;
}

function isAlive(pid: number): boolean {
  if (pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

function cannotWrite(folder: string, cause: unknown): Failure {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new Failure({
    kind: 'missing',
    code: 'cannot-write',
    fact: `Buffers cannot be written to ${folder}: ${reason}.`,
    next: 'Free some space there, or name a folder that can be written.',
    cause,
  });
}
