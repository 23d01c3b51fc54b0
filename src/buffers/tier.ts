import { AdaptiveCache } from './eviction/adaptive-cache.js';

/** One place where items lie, with its own limit: memory, or a folder. */
export class Tier<Item extends { readonly rawBytes: number }> {
  readonly #items = new Map<string, Item>();
  readonly #cache: AdaptiveCache;
  readonly #drop: (key: string) => void;
  evictions = 0;
  rawBytes = 0;

  constructor(limitBytes: number, drop: (key: string) => void = () => {}) {
    this.#cache = new AdaptiveCache(limitBytes);
    this.#drop = drop;
  }

  get bytes(): number {
    return this.#cache.bytes;
  }

  get limitBytes(): number {
    return this.#cache.limitBytes;
  }

  get count(): number {
    return this.#items.size;
  }

  keys(): string[] {
    return [...this.#items.keys()];
  }

  has(key: string): boolean {
    return this.#items.has(key);
  }

  /** The item, if it is here; asking counts, also for one that is not. */
  use(key: string): Item | undefined {
    this.#cache.use(key);
    return this.#items.get(key);
  }

  add(key: string, item: Item, bytes: number): void {
    this.#forget(key);
    this.#items.set(key, item);
    this.rawBytes += item.rawBytes;
    this.#evict(this.#cache.add(key, bytes));
  }

  /** Takes an item out; true where it was here. */
  remove(key: string): boolean {
    this.#cache.remove(key);
    return this.#forget(key);
  }

  resize(limitBytes: number): void {
    this.#evict(this.#cache.resize(limitBytes));
  }

  #evict(keys: readonly string[]): void {
    for (const key of keys) {
      if (this.#forget(key)) this.evictions += 1;
      this.#drop(key);
    }
  }

  #forget(key: string): boolean {
    this.rawBytes -= this.#items.get(key)?.rawBytes ?? 0;
    return this.#items.delete(key);
  }
}
