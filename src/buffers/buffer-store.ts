import { Failure } from '../failure.js';
import { formatBytes } from '../units/bytes.js';
import { autoLimit } from './auto-limit.js';
import { type PackedPart, packPart, unpackPart } from './format/pack.js';
import { type BufferRecord, encodeRecord } from './format/record.js';
import { type BufferValue, partsOf, valueOf } from './format/value.js';
import { firstReading, hostMemory, type MemoryReading } from './host-memory.js';
import { type FoundItem, ItemFolder } from './item-folder.js';
import { type BufferStoreOptions, type StoreSettings, storeSettings } from './options.js';
import { type BufferStatistics, Counters } from './statistics.js';
import { Tier } from './tier.js';

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
