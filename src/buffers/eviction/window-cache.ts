import type { Frequencies } from './frequencies.js';
import { Segment } from './segment.js';

/** The part of what is outside the window for keys that were used there again. */
const protectedShare = 0.8;

/**
 * W-TinyLFU over keys and their bytes: new keys enter a window in order of use; one that leaves it
 * stays only if it was asked for more often than the key that would have to go. A window of all
 * memory (share 1) is plain LRU.
 */
export class WindowCache {
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
