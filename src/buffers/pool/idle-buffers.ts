interface Idle {
  readonly buffer: ArrayBuffer;
  /** Counts up with each return: the smallest has been idle for longest. */
  readonly returned: number;
}

/** Buffers that wait for their next use, by size, up to a limit of bytes. */
export class IdleBuffers {
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
