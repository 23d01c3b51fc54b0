import { Failure } from '../../failure.js';
import { bytesOf, ggmlTypes } from '../../units/data-types.js';
import { ByteReader, type ByteSource, isLfsPointer } from '../files/byte-reader.js';
import { limits } from '../limits.js';
import { elementsOf } from '../parameter-list.js';
import type { WeightTally } from '../weight-tally.js';

export const ggufMagic = 'GGUF';

/** A version written by a machine of the other byte order, as it reads here. */
const otherByteOrder = 0x1000000;

/** What stands in front of the tensors of a GGUF file. */
export interface GgufHeader {
  readonly keys: ReadonlyMap<string, GgufValue>;
  /** The shape of the token embedding, outermost first, where the file has it. */
  readonly embeddingShape?: readonly number[];
}

/**
 * Reads the header of a GGUF file (version 2 or 3): its keys, and its tensors into a tally. No byte
 * of a tensor is read; what a tensor takes follows from its type and shape, not from any label.
 */
export function readGgufHeader(source: ByteSource, place: string, tally: WeightTally): GgufHeader {
  const fail = (what: string): Failure => badGguf(place, what);
  if (isLfsPointer(source)) throw fail('it is only a Git LFS pointer (run "git lfs pull" there)');
  const bytes = new ByteReader(source, 0, source.size, fail);
  if (source.size < 4 || textOf(bytes.bytes(4)) !== ggufMagic) {
    throw fail(`it does not begin with ${ggufMagic}`);
  }
  const version = bytes.u32();
  if (version >= otherByteOrder) throw fail('it is written for big-endian machines');
  if (version !== 2 && version !== 3) throw fail(`its version is ${version}; 2 and 3 are read`);
  const tensors = bytes.u64('the number of tensors');
  const keyCount = bytes.u64('the number of keys');
  if (tensors > limits.tensors) throw fail(`it says that it has ${tensors} tensors`);
  if (keyCount > limits.ggufKeys) throw fail(`it says that it has ${keyCount} keys`);
  const values = new GgufValues(bytes, fail);
  const keys = readKeys(bytes, values, keyCount, fail);
  const found = readTensors(bytes, values, tensors, tally, fail);
  checkSpans(found.spans, bytes.position, source.size, alignmentOf(keys, fail), fail);
  const { embeddingShape } = found;
  return { keys, ...(embeddingShape === undefined ? {} : { embeddingShape }) };
}

function readKeys(
  bytes: ByteReader,
  values: GgufValues,
  count: number,
  fail: (what: string) => Failure,
): ReadonlyMap<string, GgufValue> {
  const keys = new Map<string, GgufValue>();
  for (let index = 0; index < count; index += 1) {
    const key = values.name(`the name of key ${index + 1}`);
    if (keys.has(key)) throw fail(`there are two keys "${key}"`);
    keys.set(key, values.value(key, bytes.u32()));
  }
  return keys;
}

interface Span {
  readonly name: string;
  readonly begin: number;
  readonly bytes: number;
}

interface FoundTensors {
  readonly spans: readonly Span[];
  readonly embeddingShape?: readonly number[];
}

function readTensors(
  reader: ByteReader,
  values: GgufValues,
  count: number,
  tally: WeightTally,
  fail: (what: string) => Failure,
): FoundTensors {
  const spans: Span[] = [];
  let embeddingShape: readonly number[] | undefined;
  for (let index = 0; index < count; index += 1) {
    const name = values.name(`the name of tensor ${index + 1}`);
    const dimensions = reader.u32();
    if (dimensions > limits.ggufDimensions) {
      throw fail(
        `tensor "${name}" has ${dimensions} dimensions; ggml allows ${limits.ggufDimensions}`,
      );
    }
    const innermostFirst = Array.from({ length: dimensions }, () =>
      reader.u64(`a size of "${name}"`),
    );
    const type = ggmlTypes.get(reader.u32());
    const begin = reader.u64(`the place of "${name}"`);
    if (type === undefined) throw fail(`tensor "${name}" has an unknown type`);
    const shape = innermostFirst.toReversed();
    const elements = elementsOf(shape);
    // Blocks lie within rows, so a row must fill whole ones.
    const rowFits = (innermostFirst[0] ?? 1) % type.elements === 0;
    const bytes = Number.isSafeInteger(elements) && rowFits ? bytesOf(elements, type) : undefined;
    if (bytes === undefined)
      throw fail(`tensor "${name}" has a shape that ${type.name} cannot hold`);
    tally.add({ name, type: type.name, shape, elements, bytes }, fail);
    spans.push({ name, begin, bytes });
    if (name === 'token_embd.weight') embeddingShape = shape;
  }
  return { spans, ...(embeddingShape === undefined ? {} : { embeddingShape }) };
}

function alignmentOf(
  keys: ReadonlyMap<string, GgufValue>,
  fail: (what: string) => Failure,
): number {
  const alignment = keys.get('general.alignment') ?? 32;
  if (typeof alignment === 'number' && Number.isInteger(alignment) && alignment > 0)
    return alignment;
  throw fail('its "general.alignment" is not a number of bytes');
}

function checkSpans(
  spans: readonly Span[],
  headerEnd: number,
  size: number,
  alignment: number,
  fail: (what: string) => Failure,
): void {
  const dataStart = Math.ceil(headerEnd / alignment) * alignment;
  let at = 0;
  for (const { name, begin, bytes } of spans.toSorted((a, b) => a.begin - b.begin)) {
    if (begin % alignment !== 0)
      throw fail(`tensor "${name}" does not begin at a multiple of ${alignment}`);
    if (begin < at) throw fail(`tensor "${name}" overlaps the one before it`);
    at = begin + bytes;
    if (dataStart + at > size) {
      throw fail(`tensor "${name}" ends at byte ${dataStart + at}, but the file at ${size}`);
    }
  }
}

export function badGguf(place: string, what: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-gguf',
    fact: `${place} is not a readable GGUF file: ${what}.`,
    next: 'Check that the download is complete.',
  });
}

/** A value as it is kept. Of a list and of a long text, that is only the length. */
export type GgufValue = string | number | boolean | { readonly length: number };

/** Bytes that are not UTF-8 are replaced. */
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

function textOf(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}

const textType = 8;
const listType = 9;

interface PlainType {
  readonly bytes: number;
  read(bytes: DataView): number | boolean;
}

/** Types of one fixed size, by their number in the file. */
const plainTypes: ReadonlyMap<number, PlainType> = new Map<number, PlainType>([
  [0, { bytes: 1, read: (bytes) => bytes.getUint8(0) }],
  [1, { bytes: 1, read: (bytes) => bytes.getInt8(0) }],
  [2, { bytes: 2, read: (bytes) => bytes.getUint16(0, true) }],
  [3, { bytes: 2, read: (bytes) => bytes.getInt16(0, true) }],
  [4, { bytes: 4, read: (bytes) => bytes.getUint32(0, true) }],
  [5, { bytes: 4, read: (bytes) => bytes.getInt32(0, true) }],
  [6, { bytes: 4, read: (bytes) => bytes.getFloat32(0, true) }],
  [7, { bytes: 1, read: (bytes) => bytes.getUint8(0) !== 0 }],
  [10, { bytes: 8, read: (bytes) => Number(bytes.getBigUint64(0, true)) }],
  [11, { bytes: 8, read: (bytes) => Number(bytes.getBigInt64(0, true)) }],
  [12, { bytes: 8, read: (bytes) => bytes.getFloat64(0, true) }],
]);

/** Reads the values of a GGUF file within the limits that hold for the whole file. */
class GgufValues {
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
    if (length <= limits.nameBytes) return textOf(this.#bytes.bytes(length));
    throw this.#fail(
      `${what} is said to have ${length} bytes; at most ${limits.nameBytes} are read`,
    );
  }

  /** Reads or passes over one value of a type. */
  value(key: string, type: number): GgufValue {
    if (type === textType) return this.#text(key);
    if (type === listType) return this.#list(key, 0);
    const plain = this.#plain(key, type);
    return plain.read(new DataView(this.#bytes.bytes(plain.bytes).buffer));
  }

  #plain(key: string, type: number): PlainType {
    const plain = plainTypes.get(type);
    if (plain !== undefined) return plain;
    throw this.#fail(`the value of "${key}" has the unknown type ${type}`);
  }

  #text(key: string): GgufValue {
    const length = this.#bytes.u64(`the length of "${key}"`);
    if (length <= limits.ggufKeptTextBytes) return textOf(this.#bytes.bytes(length));
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
