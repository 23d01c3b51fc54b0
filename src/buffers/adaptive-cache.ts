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

/** Counts stop here: what was asked for often long ago must be forgotten in a few halvings. */
const highest = 15;
/** All counts are halved after so many requests for each item that fits. */
const requestsPerItem = 10;
/** A store that holds almost nothing still needs some requests to tell items apart. */
const leastItems = 16;

/**
 * How often each key was asked for lately, also keys that are not held. A plain map instead of a
 * sketch: buffers are large and few, and a map is exact. It holds at most as many keys as there were
 * requests between two halvings.
 */
class Frequencies {
  readonly #counts = new Map<string, number>();
  #requests = 0;

  of(key: string): number {
    return this.#counts.get(key) ?? 0;
  }

  count(key: string, itemsHeld: number): void {
    this.#counts.set(key, Math.min(highest, this.of(key) + 1));
    this.#requests += 1;
    if (this.#requests >= requestsPerItem * Math.max(itemsHeld, leastItems)) this.#halve();
  }

  #halve(): void {
    this.#requests = Math.floor(this.#requests / 2);
    for (const [key, count] of this.#counts) {
      if (count > 1) this.#counts.set(key, Math.floor(count / 2));
      else this.#counts.delete(key);
    }
  }
}

/** The part of what is outside the window for keys that were used there again. */
const protectedShare = 0.8;

/**
 * W-TinyLFU over keys and their bytes: new keys enter a window in order of use; one that leaves it
 * stays only if it was asked for more often than the key that would have to go. A window of all
 * memory (share 1) is plain LRU.
 */
class WindowCache {
  readonly #window = new Segment();
  readonly #probation = new Segment();
  readonly #protected = new Segment();
  readonly #frequencies: Frequencies;
  #limit: number;
  #share: number;

  constructor(limitBytes: number, windowShare: number, frequencies: Frequencies) {
    this.#limit = limitBytes;
    this.#share = windowShare;
    this.#frequencies = frequencies;
  }

  get bytes(): number {
    return this.#window.bytes + this.#probation.bytes + this.#protected.bytes;
  }

  get count(): number {
    return this.#window.count + this.#probation.count + this.#protected.count;
  }

  size(key: string): number | undefined {
    return this.#window.size(key) ?? this.#protected.size(key) ?? this.#probation.size(key);
  }

  /** Notes a use; false where the key is not held. */
  touch(key: string): boolean {
    const inWindow = this.#window.remove(key);
    const bytes = inWindow ?? this.#protected.remove(key) ?? this.#probation.remove(key);
    if (bytes === undefined) return false;
    (inWindow === undefined ? this.#protected : this.#window).add(key, bytes);
    this.#demote();
    return true;
  }

  /** Adds a key that is not held. Answers the keys that had to go; never this one if it fits alone. */
  add(key: string, bytes: number): readonly string[] {
    this.#window.add(key, bytes);
    return this.#fit();
  }

  remove(key: string): void {
    for (const segment of [this.#window, this.#protected, this.#probation]) segment.remove(key);
  }

  resize(limitBytes: number, windowShare: number): readonly string[] {
    this.#limit = limitBytes;
    this.#share = windowShare;
    return this.#fit();
  }

  #demote(): void {
    const most = (this.#limit - this.#windowBytes()) * protectedShare;
    while (this.#protected.bytes > most) move(this.#protected, this.#probation);
  }

  #windowBytes(): number {
    return this.#limit * this.#share;
  }

  #fit(): readonly string[] {
    const gone: string[] = [];
    this.#demote();
    // The newest stays in the window however large it is: what was just put can be read.
    while (this.#window.bytes > this.#windowBytes() && this.#window.count > 1) {
      const candidate = move(this.#window, this.#probation);
      if (candidate !== undefined && this.bytes > this.#limit) gone.push(this.#contest(candidate));
    }
    while (this.bytes > this.#limit && this.count > 0) gone.push(this.#dropOldest());
    return gone;
  }

  #contest(candidate: string): string {
    const victim = this.#probation.oldest ?? candidate;
    const wins = this.#frequencies.of(candidate) > this.#frequencies.of(victim);
    const loser = wins ? victim : candidate;
    this.#probation.remove(loser);
    return loser;
  }

  #dropOldest(): string {
    const from = [this.#probation, this.#protected, this.#window].find(({ count }) => count > 0);
    const oldest = from?.oldest ?? '';
    from?.remove(oldest);
    return oldest;
  }
}

function move(from: Segment, to: Segment): string | undefined {
  const key = from.oldest;
  if (key !== undefined) to.add(key, from.remove(key) ?? 0);
  return key;
}

/** Keys with their sizes, the one that was used longest ago first. */
class Segment {
  readonly #sizes = new Map<string, number>();
  bytes = 0;

  get count(): number {
    return this.#sizes.size;
  }

  get oldest(): string | undefined {
    return this.#sizes.keys().next().value;
  }

  size(key: string): number | undefined {
    return this.#sizes.get(key);
  }

  add(key: string, bytes: number): void {
    this.#sizes.set(key, bytes);
    this.bytes += bytes;
  }

  remove(key: string): number | undefined {
    const bytes = this.#sizes.get(key);
    if (bytes === undefined) return undefined;
    this.#sizes.delete(key);
    this.bytes -= bytes;
    return bytes;
  }
}
