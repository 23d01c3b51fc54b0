import { Failure } from '../failure.js';
import { checkOptions, elsewhere } from '../units/arguments.js';
import { formatBytes } from '../units/bytes.js';
import type { Known } from '../units/known.js';
import { sizeOption } from './options.js';

const pool = 'an ArrayBuffer pool';

export interface ArrayBufferPoolOptions {
  /** Memory that the pool keeps while it is not in use: `'256MiB'`, or bytes. 256 MiB. */
  readonly limit?: number | string;
}

/** Counts of a pool since it was made, and the bytes it holds now. All measured. */
export interface ArrayBufferPoolStatistics {
  readonly taken: number;
  /** Of those taken, the ones that had been in use before. */
  readonly reused: number;
  /** Of 0 to 1; unknown before the first one is taken. */
  readonly reuseRate: Known<number>;
  /** Buffers that were dropped because idle memory reached the limit, or by `clear`. */
  readonly released: number;
  /** Buffers whose memory did not come back: collected as garbage, or transferred to another thread. */
  readonly lost: number;
  readonly idleBytes: number;
  readonly lentBytes: number;
  readonly limitBytes: number;
}

/** Bytes that go back to the pool at the end of a `using` block. */
export interface LentBytes {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Gives them back; the second call does nothing. */
  release(): void;
  [Symbol.dispose](): void;
}

/**
 * Lends memory and takes it back for the next use. What was given back can no longer be read: its
 * views have the length 0, so that no program sees the bytes of another use.
 *
 * @example
 * using pool = new ArrayBufferPool({ limit: '64MiB' });
 * using lent = pool.borrow(2 ** 20);
 * lent.bytes.length; // 1048576
 */
export class ArrayBufferPool {
  readonly #limitBytes: number;
  readonly #idle: IdleBuffers;
  readonly #lent = new WeakMap<ArrayBuffer, number>();
  readonly #collected: FinalizationRegistry<number>;
  #taken = 0;
  #reused = 0;
  #released = 0;
  #lost = 0;
  #lentBytes = 0;
  #isClosed = false;

  constructor(options: ArrayBufferPoolOptions = {}) {
    checkOptions(pool, options, { limit: elsewhere });
    this.#limitBytes = sizeOption('limit', options.limit ?? 256 * 2 ** 20, pool);
    this.#idle = new IdleBuffers(this.#limitBytes);
    this.#collected = new FinalizationRegistry((size) => {
      this.#lost += 1;
      this.#lentBytes -= size;
    });
  }

  /** So many bytes, with any values; their `buffer` may be longer. Give them back with `give`. */
  take(bytes: number): Uint8Array<ArrayBuffer> {
    checkBytes(bytes);
    const size = sizeClass(bytes);
    const idle = this.#idle.take(size);
    const buffer = idle ?? this.#allocate(size, bytes);
    this.#taken += 1;
    if (idle !== undefined) this.#reused += 1;
    this.#lentBytes += size;
    this.#lent.set(buffer, size);
    this.#collected.register(buffer, size, buffer);
    return new Uint8Array(buffer, 0, bytes);
  }

  /** Takes back what `take` returned, or any other view of it. All views of it become empty. */
  give(view: ArrayBufferView | ArrayBuffer): void {
    const buffer = ArrayBuffer.isView(view) ? view.buffer : view;
    const size = buffer instanceof ArrayBuffer ? this.#lent.get(buffer) : undefined;
    if (!(buffer instanceof ArrayBuffer) || size === undefined) throw notLent();
    this.#lent.delete(buffer);
    this.#collected.unregister(buffer);
    this.#lentBytes -= size;
    if (buffer.byteLength !== size) {
      // It was transferred to another thread, with its memory.
      this.#lost += 1;
      return;
    }
    // Moves the memory, and copies nothing.
    const moved = structuredClone(buffer, { transfer: [buffer] });
    this.#released += this.#isClosed ? 1 : this.#idle.add(moved);
  }

  /** Lends bytes until the end of a `using` block, or until `release`. */
  borrow(bytes: number): LentBytes {
    const taken = this.take(bytes);
    let isLent = true;
    const release = () => {
      if (isLent) this.give(taken);
      isLent = false;
    };
    return { bytes: taken, release, [Symbol.dispose]: release };
  }

  /** Drops what is idle. */
  clear(): void {
    this.#released += this.#idle.clear();
  }

  statistics(): ArrayBufferPoolStatistics {
    return {
      taken: this.#taken,
      reused: this.#reused,
      reuseRate: this.#taken === 0 ? 'unknown' : this.#reused / this.#taken,
      released: this.#released,
      lost: this.#lost,
      idleBytes: this.#idle.bytes,
      lentBytes: this.#lentBytes,
      limitBytes: this.#limitBytes,
    };
  }

  /** Drops what is idle, and from now on what is given back. */
  [Symbol.dispose](): void {
    this.#isClosed = true;
    this.clear();
  }

  #allocate(size: number, asked: number): ArrayBuffer {
    try {
      return new ArrayBuffer(size);
    } catch {
      // The idle buffers may be what is missing.
      this.clear();
    }
    try {
      return new ArrayBuffer(size);
    } catch (cause) {
      throw new Failure({
        kind: 'missing',
        code: 'cannot-allocate',
        fact: `Node could not allocate ${formatBytes(asked)} for a buffer.`,
        next: 'Take less at a time, or give buffers back first.',
        cause,
      });
    }
  }
}

function checkBytes(bytes: unknown): void {
  if (Number.isSafeInteger(bytes) && Number(bytes) >= 0) return;
  throw new Failure({
    kind: 'input',
    code: 'bad-argument',
    fact: `A pool cannot lend ${String(bytes)} bytes.`,
    next: 'Pass a whole number of bytes, 0 or more.',
    field: 'bytes',
  });
}

function notLent(): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-argument',
    fact: 'These bytes were not lent by this pool, or were given back before.',
    next: 'Give back each result of take() once.',
  });
}

interface Idle {
  readonly buffer: ArrayBuffer;
  /** Counts up with each return: the smallest has been idle for longest. */
  readonly returned: number;
}

/** Buffers that wait for their next use, by size, up to a limit of bytes. */
class IdleBuffers {
  readonly #bySize = new Map<number, Idle[]>();
  readonly #limitBytes: number;
  #returned = 0;
  bytes = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  /** The one of this size that came back last: the processor's caches may still hold it. */
  take(size: number): ArrayBuffer | undefined {
    return this.#remove(size, (same) => same.pop());
  }

  /** Keeps a buffer, and drops those that were idle for longest; answers how many. */
  add(buffer: ArrayBuffer): number {
    const size = buffer.byteLength;
    const same = this.#bySize.get(size) ?? [];
    this.#bySize.set(size, same);
    same.push({ buffer, returned: this.#returned++ });
    this.bytes += size;
    let dropped = 0;
    for (; this.bytes > this.#limitBytes; dropped++) this.#dropOldest();
    return dropped;
  }

  /** Drops all; answers how many. */
  clear(): number {
    const dropped = [...this.#bySize.values()].reduce((sum, { length }) => sum + length, 0);
    this.#bySize.clear();
    this.bytes = 0;
    return dropped;
  }

  #dropOldest(): void {
    let oldest = { size: 0, returned: Number.POSITIVE_INFINITY };
    for (const [size, [first]] of this.#bySize) {
      const returned = first?.returned ?? Number.POSITIVE_INFINITY;
      if (returned < oldest.returned) oldest = { size, returned };
    }
    this.#remove(oldest.size, (same) => same.shift());
  }

  #remove(size: number, pick: (same: Idle[]) => Idle | undefined): ArrayBuffer | undefined {
    const same = this.#bySize.get(size);
    const picked = same && pick(same);
    if (same?.length === 0) this.#bySize.delete(size);
    if (picked !== undefined) this.bytes -= size;
    return picked?.buffer;
  }
}

/** Smaller buffers cost less to make than to manage. */
const leastBytes = 4096;

/**
 * The size of the buffer that serves a request: four sizes for each doubling, so that requests of
 * similar size share buffers, and at most a fifth of a buffer stays unused.
 *
 * @example
 * sizeClass(5000); // 5120
 */
export function sizeClass(bytes: number): number {
  if (bytes <= leastBytes) return leastBytes;
  const step = 2 ** (Math.floor(Math.log2(bytes - 1)) - 2);
  return Math.ceil(bytes / step) * step;
}
