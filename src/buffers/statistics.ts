import type { Known } from '../units/known.js';

/** What a store did since it was opened, and what it holds now. All measured. */
export interface BufferStatistics {
  readonly items: number;
  readonly hits: number;
  readonly misses: number;
  /** Of 0 to 1; unknown before the first question. */
  readonly hitRate: Known<number>;
  readonly evictions: number;
  /** Items whose bytes were not what they had been; each was removed. */
  readonly damaged: number;
  readonly memoryBytes: number;
  readonly memoryLimitBytes: number;
  readonly fileBytes: number;
  readonly fileLimitBytes: number;
  /** What the items would take without compression. */
  readonly rawBytes: number;
  /** Raw bytes for each byte held; unknown for an empty store. */
  readonly compressionRatio: Known<number>;
}

interface Held {
  readonly count: number;
  readonly bytes: number;
  readonly limitBytes: number;
  readonly rawBytes: number;
  readonly evictions: number;
}

export class Counters {
  damaged = 0;
  #hits = 0;
  #misses = 0;

  asked(found: boolean): void {
    if (found) this.#hits += 1;
    else this.#misses += 1;
  }

  statistics(memory: Held, files: Held): BufferStatistics {
    const asked = this.#hits + this.#misses;
    const bytes = memory.bytes + files.bytes;
    const rawBytes = memory.rawBytes + files.rawBytes;
    return {
      items: memory.count + files.count,
      hits: this.#hits,
      misses: this.#misses,
      hitRate: asked === 0 ? 'unknown' : this.#hits / asked,
      evictions: memory.evictions + files.evictions,
      damaged: this.damaged,
      memoryBytes: memory.bytes,
      memoryLimitBytes: memory.limitBytes,
      fileBytes: files.bytes,
      fileLimitBytes: files.limitBytes,
      rawBytes,
      compressionRatio: bytes === 0 ? 'unknown' : rawBytes / bytes,
    };
  }
}
