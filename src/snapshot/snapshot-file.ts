import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { createGunzip } from 'node:zlib';
import { Failure } from '../failure.js';
import { readReason } from '../files/system-errors.js';
import { margin, type PickleMachine } from './pickle/machine.js';
import { limits, refuseCut } from './refusals.js';
import { XzReader } from './xz/xz-reader.js';

/** How many bytes of the file have been read. */
type OnRead = (bytes: number) => void;

/** A file that is read from its beginning to its end, whatever it is packed with. */
export interface SnapshotInput {
  /** About how long the pickle inside is. */
  readonly expectedBytes: number;
  readonly fileBytes: number;
  /** Hands all of it on, piece by piece; stops early where the pickle does. */
  pour(window: PickleWindow, onRead: OnRead): Promise<void>;
  readonly file: FileHandle;
}

/** The usual compression ratio of a snapshot. */
const usualRatio = 15;
/** A pickle that was packed is at most so long as far as room is made beforehand. */
const maxExpected = 2 ** 32;
const pieceBytes = 1024 * 1024;

/** Opens the file and looks at its first bytes: the name does not matter. */
export async function openInput(path: string): Promise<SnapshotInput> {
  const file = await openFile(path);
  try {
    const stats = await file.stat();
    if (stats.isDirectory()) throw cannotRead(path, 'it is a folder');
    if (!stats.isFile()) throw cannotRead(path, 'it is not a plain file');
    const head = new Uint8Array(6);
    await file.read(head, 0, head.length, 0);
    const packed = packingOf(head);
    const expected = packed === 'none' ? stats.size : stats.size * usualRatio;
    const expectedBytes = Math.min(expected, maxExpected);
    return { file, fileBytes: stats.size, expectedBytes, pour: pours[packed](file) };
  } catch (error) {
    await file.close();
    throw error;
  }
}

export async function closeInput(input: SnapshotInput): Promise<void> {
  await input.file.close();
}

type Packing = 'none' | 'gzip' | 'xz';

function packingOf(head: Uint8Array): Packing {
  const hex = Buffer.from(head).toString('hex');
  if (hex.startsWith('1f8b')) return 'gzip';
  return hex.startsWith('fd377a585a00') ? 'xz' : 'none';
}

const pours: Readonly<Record<Packing, (file: FileHandle) => SnapshotInput['pour']>> = {
  none: (file) => async (window, onRead) => {
    // Straight into the window: no byte is copied twice.
    for (let at = 0; !window.isDone; ) {
      const room = window.room();
      const { bytesRead } = await file.read(room, 0, room.length, at);
      if (bytesRead === 0) return;
      at += bytesRead;
      window.filled(bytesRead);
      onRead(at);
    }
  },
  gzip: (file) => async (window, onRead) => {
    const unpacked = createGunzip({ chunkSize: pieceBytes });
    const packed = file.createReadStream({ start: 0, autoClose: false });
    packed.on('error', (error) => unpacked.destroy(error));
    packed.pipe(unpacked);
    try {
      for await (const chunk of unpacked) {
        if (chunk instanceof Uint8Array) window.push(chunk);
        onRead(packed.bytesRead);
        if (window.isDone) return;
      }
    } catch (error) {
      throw error instanceof Failure ? error : badArchive('gzip', error);
    } finally {
      packed.destroy();
      unpacked.destroy();
    }
  },
  xz: (file) => async (window, onRead) => {
    const reader = new XzReader((bytes) => {
      window.push(bytes);
      return !window.isDone;
    });
    const piece = new Uint8Array(pieceBytes);
    for (let at = 0; !window.isDone; ) {
      const { bytesRead } = await file.read(piece, 0, piece.length, at);
      if (bytesRead === 0) return reader.end();
      at += bytesRead;
      reader.push(piece.subarray(0, bytesRead));
      onRead(at);
    }
  },
};

function badArchive(what: string, cause: unknown): Failure {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new Failure({
    kind: 'input',
    code: 'bad-archive',
    fact: `The ${what} data are damaged: ${why}.`,
    next: 'Copy the file again, or pack it again.',
    cause,
  });
}

async function openFile(path: string): Promise<FileHandle> {
  try {
    // A named pipe would wait for a writer for ever; so it opens, and is refused as no plain file.
    return await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    throw cannotRead(path, readReason(error), error);
  }
}

function cannotRead(path: string, why: string, cause?: unknown): Failure {
  return new Failure({
    kind: 'input',
    code: 'cannot-read',
    fact: `${path} cannot be read: ${why}.`,
    next: 'Name a file that torch.cuda.memory._dump_snapshot wrote.',
    ...(cause === undefined ? {} : { cause }),
  });
}

/** Holds the longest string twice over, so that what waits for more bytes always gets them. */
const largestWindow = 4 * limits.stringBytes;
const smallestWindow = 4096;

/** The piece of the file that is being read; a small part of it, however long the file is. */
export class PickleWindow {
  readonly #machine: PickleMachine;
  #bytes: Uint8Array;
  #filled = 0;
  #total = 0;

  constructor(machine: PickleMachine, expectedBytes: number) {
    this.#machine = machine;
    const size = Math.min(largestWindow, Math.max(smallestWindow, expectedBytes));
    this.#bytes = new Uint8Array(size + margin);
  }

  get isDone(): boolean {
    return this.#machine.result !== undefined;
  }

  /** Returns room for the next bytes of the file; never empty. */
  room(): Uint8Array {
    if (this.#filled + margin >= this.#bytes.length) {
      const larger = new Uint8Array(Math.max(this.#bytes.length * 2, largestWindow) + margin);
      larger.set(this.#bytes);
      this.#bytes = larger;
    }
    return this.#bytes.subarray(this.#filled, this.#bytes.length - margin);
  }

  /** So many bytes were put into `room()`. */
  filled(count: number): void {
    this.#filled += count;
    this.#total += count;
    this.#run(false);
  }

  /** Bytes that came from elsewhere. */
  push(chunk: Uint8Array): void {
    let rest = chunk;
    while (rest.length > 0 && !this.isDone) {
      const room = this.room();
      const count = Math.min(room.length, rest.length);
      room.set(rest.subarray(0, count));
      rest = rest.subarray(count);
      this.filled(count);
    }
  }

  /** There is no more. */
  end(): void {
    if (this.isDone) return;
    this.#bytes.fill(0, this.#filled, this.#filled + margin);
    this.#run(true);
    if (!this.isDone) refuseCut(this.#total);
  }

  #run(last: boolean): void {
    const used = this.#machine.run(this.#bytes, this.#filled, last);
    this.#bytes.copyWithin(0, used, this.#filled);
    this.#filled -= used;
  }
}
