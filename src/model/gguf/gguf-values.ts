import type { Failure } from '../../failure.js';
import type { ByteReader } from '../files/byte-reader.js';
import { limits } from '../limits.js';

/** A value as it is kept. Of a list and of a long text, that is only the length. */
export type GgufValue = string | number | boolean | { readonly length: number };

const textType = 8;
const listType = 9;

interface PlainType {
  readonly bytes: number;
  read(bytes: Buffer): number | boolean;
}

/** Types of one fixed size, by their number in the file. */
const plainTypes: ReadonlyMap<number, PlainType> = new Map<number, PlainType>([
  [0, { bytes: 1, read: (bytes) => bytes.readUInt8() }],
  [1, { bytes: 1, read: (bytes) => bytes.readInt8() }],
  [2, { bytes: 2, read: (bytes) => bytes.readUInt16LE() }],
  [3, { bytes: 2, read: (bytes) => bytes.readInt16LE() }],
  [4, { bytes: 4, read: (bytes) => bytes.readUInt32LE() }],
  [5, { bytes: 4, read: (bytes) => bytes.readInt32LE() }],
  [6, { bytes: 4, read: (bytes) => bytes.readFloatLE() }],
  [7, { bytes: 1, read: (bytes) => bytes.readUInt8() !== 0 }],
  [10, { bytes: 8, read: (bytes) => Number(bytes.readBigUInt64LE()) }],
  [11, { bytes: 8, read: (bytes) => Number(bytes.readBigInt64LE()) }],
  [12, { bytes: 8, read: (bytes) => bytes.readDoubleLE() }],
]);

/** Reads the values of a GGUF file within the limits that hold for the whole file. */
export class GgufValues {
  readonly #bytes: ByteReader;
  readonly #fail: (what: string) => Failure;
  #elements = 0;

  constructor(bytes: ByteReader, fail: (what: string) => Failure) {
    this.#bytes = bytes;
    this.#fail = fail;
  }

  /** A text that is a name, so short; bytes that are not UTF-8 are replaced. */
  name(what: string): string {
    const length = this.#bytes.u64(`the length of ${what}`);
    if (length <= limits.nameBytes) return this.#bytes.bytes(length).toString('utf8');
    throw this.#fail(
      `${what} is said to have ${length} bytes; at most ${limits.nameBytes} are read`,
    );
  }

  /** Reads or passes over one value of a type. */
  value(key: string, type: number): GgufValue {
    if (type === textType) return this.#text(key);
    if (type === listType) return this.#list(key, 0);
    const plain = this.#plain(key, type);
    return plain.read(this.#bytes.bytes(plain.bytes));
  }

  #plain(key: string, type: number): PlainType {
    const plain = plainTypes.get(type);
    if (plain !== undefined) return plain;
    throw this.#fail(`the value of "${key}" has the unknown type ${type}`);
  }

  #text(key: string): GgufValue {
    const length = this.#bytes.u64(`the length of "${key}"`);
    if (length <= limits.ggufKeptTextBytes) return this.#bytes.bytes(length).toString('utf8');
    this.#bytes.skip(length);
    return { length };
  }

  #list(key: string, depth: number): GgufValue {
    if (depth > limits.ggufListDepth) throw this.#fail(`the lists of "${key}" nest too deep`);
    const type = this.#bytes.u32();
    const length = this.#bytes.u64(`the length of "${key}"`);
    this.#elements += length;
    if (this.#elements > limits.ggufListElements) {
      throw this.#fail(`its lists have over ${limits.ggufListElements} elements, with "${key}"`);
    }
    if (type === textType) {
      for (let index = 0; index < length; index += 1) {
        this.#bytes.skip(this.#bytes.u64(`the length of a text in "${key}"`));
      }
      return { length };
    }
    if (type === listType) {
      for (let index = 0; index < length; index += 1) this.#list(key, depth + 1);
      return { length };
    }
    this.#bytes.skip(length * this.#plain(key, type).bytes);
    return { length };
  }
}
