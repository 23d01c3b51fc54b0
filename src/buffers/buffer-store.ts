import { defaultLoadLine } from '../device/load-line.js';
import { Failure } from '../failure.js';
import { formatBytes } from '../units/bytes.js';
import type { Known } from '../units/known.js';
import { AdaptiveCache } from './adaptive-cache.js';
import { type FoundItem, ItemFolder } from './item-folder.js';
import {
  type BufferStoreOptions,
  firstReading,
  hostMemory,
  type MemoryReading,
  type StoreSettings,
  storeSettings,
} from './options.js';
import {
  type BufferRecord,
  encodeRecord,
  type PackedPart,
  packPart,
  unpackPart,
} from './record.js';
import { type BufferValue, partsOf, valueOf } from './value.js';

/** Estimated: key, entries of maps, views; so that a million small items do not pass the limit. */
const itemOverheadBytes = 512;
/** Longer ones are data, not names. */
const longestKey = 4096;
/** How often a store of automatic size looks at the machine's memory. */
const adjustMilliseconds = 1000;

interface HeldItem {
  readonly record: BufferRecord;
  readonly rawBytes: number;
}

/**
 * Keeps bytes, typed arrays and dictionaries of them within a limit of memory: compressed where that
 * pays, large ones in files, the least useful ones dropped first. What it no longer has is
 * `undefined`.
 *
 * @example
 * using store = new BufferStore({ limit: '1GiB' });
 * store.put('frame/1', new Float32Array(84 * 84));
 * store.get('frame/1'); // a Float32Array
 */
export class BufferStore {
  readonly #settings: StoreSettings;
  readonly #memory: Tier<HeldItem>;
  readonly #files: Tier<FoundItem>;
  readonly #folder: ItemFolder | undefined;
  readonly #counters = new Counters();
  readonly #read: () => Promise<MemoryReading | undefined>;
  readonly #timer: NodeJS.Timeout | undefined;

  constructor(
    options: BufferStoreOptions = {},
    read: () => Promise<MemoryReading | undefined> = hostMemory(),
  ) {
    this.#settings = storeSettings(options);
    const { limitBytes, folder, fileLimitBytes } = this.#settings;
    this.#read = read;
    this.#memory = new Tier(limitBytes === 'auto' ? firstLimit() : limitBytes);
    this.#folder = folder === undefined ? undefined : new ItemFolder(folder);
    this.#files = new Tier(fileLimitBytes, (key) => this.#folder?.remove(key));
    this.#takeUp();
    if (limitBytes === 'auto') {
      this.#timer = setInterval(() => void this.adjust(), adjustMilliseconds).unref();
      void this.adjust();
    }
  }

  /**
   * Keeps a value under a key, in place of the one before. When it returns true, a file is complete.
   * False: the size is automatic, and the machine has no room for it now.
   */
  put(key: string, value: BufferValue): boolean {
    checkKey(key);
    const { dictionary, parts } = partsOf(value);
    const packed = parts.map((part) => packPart(part, this.#settings.compress));
    const record = { key, dictionary, parts: packed };
    const rawBytes = parts.reduce((sum, { bytes }) => sum + bytes.length, 0);
    const keptBytes = sizeOfPlanes(packed);
    return this.#folder !== undefined && keptBytes >= this.#settings.fileAboveBytes
      ? this.#putInFile(this.#folder, record, rawBytes)
      : this.#putInMemory(record, rawBytes, keptBytes + key.length * 2 + itemOverheadBytes);
  }

  /** The value, in memory of its own; undefined where it was never put, was dropped, or is damaged. */
  get(key: string): BufferValue | undefined {
    checkKey(key);
    const inFile = this.#files.use(key);
    const held = this.#memory.use(key);
    const record = held?.record ?? (inFile && this.#folder?.read(key));
    const value = record && unpackRecord(record);
    if (value === undefined && (inFile ?? held) !== undefined) {
      this.#counters.damaged += 1;
      this.delete(key);
    }
    this.#counters.asked(value !== undefined);
    return value;
  }

  has(key: string): boolean {
    return this.#memory.has(key) || this.#files.has(key);
  }

  keys(): string[] {
    return [...this.#memory.keys(), ...this.#files.keys()];
  }

  /** Removes an item; true where there was one. */
  delete(key: string): boolean {
    checkKey(key);
    const inFile = this.#files.remove(key);
    if (inFile) this.#folder?.remove(key);
    return this.#memory.remove(key) || inFile;
  }

  /** Looks at the machine's memory now, where the size is automatic; a timer does it every second. */
  async adjust(): Promise<void> {
    if (this.#settings.limitBytes !== 'auto') return;
    const reading = await this.#read().catch(() => undefined);
    if (reading === undefined) return;
    this.#memory.resize(autoLimit({ ...reading, heldBytes: this.#memory.bytes }));
  }

  statistics(): BufferStatistics {
    return this.#counters.statistics(this.#memory, this.#files);
  }

  /** Stops looking at memory. Files stay; the next store on the folder finds them. */
  close(): void {
    clearInterval(this.#timer);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #putInFile(folder: ItemFolder, record: BufferRecord, rawBytes: number): boolean {
    const { key } = record;
    const pieces = encodeRecord(record);
    const fileBytes = pieces.reduce((sum, { length }) => sum + length, 0);
    checkFits(fileBytes, this.#files.limitBytes, 'fileLimit');
    folder.write(key, pieces);
    this.#memory.remove(key);
    this.#files.add(key, { key, fileBytes, rawBytes }, fileBytes);
    return true;
  }

  #putInMemory(record: BufferRecord, rawBytes: number, bytes: number): boolean {
    const fits = bytes <= this.#memory.limitBytes;
    if (this.#settings.limitBytes !== 'auto') checkFits(bytes, this.#memory.limitBytes, 'limit');
    if (this.#files.remove(record.key)) this.#folder?.remove(record.key);
    if (fits) this.#memory.add(record.key, { record, rawBytes }, bytes);
    else this.#memory.remove(record.key);
    return fits;
  }

  #takeUp(): void {
    const { items, damaged } = this.#folder?.open() ?? { items: [], damaged: 0 };
    this.#counters.damaged = damaged;
    for (const item of items) this.#files.add(item.key, item, item.fileBytes);
  }
}

function firstLimit(): number {
  return autoLimit({ ...firstReading(), heldBytes: 0 });
}

function sizeOfPlanes(parts: readonly PackedPart[]): number {
  return parts.flatMap(({ planes }) => planes).reduce((sum, { bytes }) => sum + bytes.length, 0);
}

function unpackRecord({ dictionary, parts }: BufferRecord): BufferValue | undefined {
  const unpacked = parts.map(unpackPart);
  return unpacked.every((part) => part !== undefined) ? valueOf(dictionary, unpacked) : undefined;
}

function checkKey(key: unknown): void {
  const named = typeof key === 'string' && key !== '' && key.length <= longestKey;
  // Half a character has no bytes in UTF-8, so no file could be named by it.
  if (named && Buffer.from(key).toString() === key) return;
  throw new Failure({
    kind: 'input',
    code: 'bad-key',
    fact: `A key must be a text of 1 to ${longestKey} characters.`,
    next: 'Pass such a text.',
  });
}

function checkFits(bytes: number, limitBytes: number, option: string): void {
  if (bytes <= limitBytes) return;
  throw new Failure({
    kind: 'input',
    code: 'buffer-too-large',
    fact: `The item takes ${formatBytes(bytes)}, and the store may hold ${formatBytes(limitBytes)} in all.`,
    next: `Raise the option ${option}, or split the item.`,
  });
}

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

/** Counts of a store since it was opened, and the bytes it holds now. All measured. */
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
  /** Size of the items without compression. */
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

class Counters {
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

/** A store never plans with more than this part of the machine. */
const maxShare = 0.5;

/**
 * The bytes that a store may hold: what it holds now, and what is free below the load line; less than
 * it holds when the machine is above the line.
 *
 * @example
 * autoLimit({ usedBytes: 95, totalBytes: 100, heldBytes: 20 }); // 15
 */
export function autoLimit(memory: {
  readonly usedBytes: number;
  readonly totalBytes: number;
  readonly heldBytes: number;
}): number {
  const free = defaultLoadLine * memory.totalBytes - memory.usedBytes;
  const most = maxShare * memory.totalBytes;
  return Math.floor(Math.min(most, Math.max(0, memory.heldBytes + free)));
}
