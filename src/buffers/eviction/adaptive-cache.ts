import { Frequencies } from './frequencies.js';
import { WindowCache } from './window-cache.js';

/** A small window keeps what is asked for often; the whole memory as window keeps what is recent. */
const byFrequency = 0.01;
const byRecency = 1;
/** The other way must be better by this share before it is taken: less moves back and forth. */
const margin = 0.02;
/** Hits are remembered over as many requests as there are items, at least over these. */
const leastMemory = 50;

/**
 * Which keys to keep within a limit of bytes. Two shadows hold keys alone, one by frequency and one
 * by recency; the window of the real one follows the shadow that had more hits lately.
 */
export class AdaptiveCache {
  readonly #frequencies = new Frequencies();
  readonly #real: WindowCache;
  readonly #frequent: WindowCache;
  readonly #recent: WindowCache;
  #limit: number;
  #share = byFrequency;
  #frequentHits = 0;
  #recentHits = 0;

  constructor(limitBytes: number) {
    this.#limit = limitBytes;
    this.#real = new WindowCache(limitBytes, byFrequency, this.#frequencies);
    this.#frequent = new WindowCache(limitBytes, byFrequency, this.#frequencies);
    this.#recent = new WindowCache(limitBytes, byRecency, this.#frequencies);
  }

  get bytes(): number {
    return this.#real.bytes;
  }

  get limitBytes(): number {
    return this.#limit;
  }

  /** Notes that a key was asked for, held or not. Nothing has to go by that. */
  use(key: string): void {
    this.#frequencies.count(key, this.#real.count);
    this.#learn(this.#shadowUse(this.#frequent, key), this.#shadowUse(this.#recent, key));
    this.#real.touch(key);
  }

  /** Adds a key, or gives it another size. Answers the keys that have to go. */
  add(key: string, bytes: number): readonly string[] {
    if (this.#frequencies.of(key) === 0) this.#frequencies.count(key, this.#real.count);
    for (const shadow of [this.#frequent, this.#recent]) {
      if (shadow.size(key) !== bytes) replace(shadow, key, bytes);
    }
    return replace(this.#real, key, bytes);
  }

  remove(key: string): void {
    for (const cache of [this.#real, this.#frequent, this.#recent]) cache.remove(key);
  }

  resize(limitBytes: number): readonly string[] {
    this.#limit = limitBytes;
    this.#frequent.resize(limitBytes, byFrequency);
    this.#recent.resize(limitBytes, byRecency);
    return this.#real.resize(limitBytes, this.#share);
  }

  #shadowUse(shadow: WindowCache, key: string): boolean {
    if (shadow.touch(key)) return true;
    const bytes = this.#real.size(key);
    if (bytes !== undefined) shadow.add(key, bytes);
    return false;
  }

  #learn(frequentHit: boolean, recentHit: boolean): void {
    const kept = 1 - 1 / Math.max(leastMemory, this.#real.count);
    this.#frequentHits = this.#frequentHits * kept + Number(frequentHit);
    this.#recentHits = this.#recentHits * kept + Number(recentHit);
    const towards = this.#share === byRecency ? 1 + margin : 1 - margin;
    const share = this.#frequentHits >= this.#recentHits * towards ? byFrequency : byRecency;
    if (share === this.#share) return;
    this.#share = share;
    // What is held is below the limit, so another window moves keys and drops none.
    this.#real.resize(this.#limit, share);
  }
}

function replace(cache: WindowCache, key: string, bytes: number): readonly string[] {
  cache.remove(key);
  return cache.add(key, bytes);
}
