import { Failure } from '../failure.js';
import type { ByteSource } from './files/byte-reader.js';

/** A file in memory. */
export function memorySource(bytes: Buffer): ByteSource {
  return {
    size: bytes.length,
    read: (into, position) => bytes.copy(into, 0, position, position + into.length),
  };
}

/** A safetensors file of a header, as text or as an object, and so many bytes of data. */
export function safetensorsFile(header: unknown, dataBytes: number): Buffer {
  const text = Buffer.from(typeof header === 'string' ? header : JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, Buffer.alloc(dataBytes)]);
}

/** A value of a GGUF key: its type's number and its bytes. */
export type GgufPart = readonly [type: number, bytes: Buffer];

export const gguf = {
  u32: (value: number): GgufPart => [4, littleEndian(value, 4)],
  u64: (value: number): GgufPart => [10, littleEndian(value, 8)],
  bool: (value: boolean): GgufPart => [7, littleEndian(value ? 1 : 0, 1)],
  text: (value: string): GgufPart => [8, lengthAndText(value)],
  texts: (values: readonly string[]): GgufPart => [
    9,
    Buffer.concat([
      littleEndian(8, 4),
      littleEndian(values.length, 8),
      ...values.map(lengthAndText),
    ]),
  ],
  u32s: (values: readonly number[]): GgufPart => [
    9,
    Buffer.concat([
      littleEndian(4, 4),
      littleEndian(values.length, 8),
      ...values.map((value) => littleEndian(value, 4)),
    ]),
  ],
  lists: (values: readonly GgufPart[]): GgufPart => [
    9,
    Buffer.concat([
      littleEndian(9, 4),
      littleEndian(values.length, 8),
      ...values.map(([, bytes]) => bytes),
    ]),
  ],
};

export interface GgufTensor {
  readonly name: string;
  /** Innermost first, as in the file. */
  readonly sizes: readonly number[];
  readonly type: number;
  readonly offset: number;
}

export interface GgufParts {
  readonly version?: number;
  readonly keys?: Readonly<Record<string, GgufPart>>;
  readonly tensors?: readonly GgufTensor[];
  readonly dataBytes?: number;
  readonly alignment?: number;
}

export function ggufFile(parts: GgufParts): Buffer {
  const { version = 3, keys = {}, tensors = [], dataBytes = 0, alignment = 32 } = parts;
  const header = Buffer.concat([
    Buffer.from('GGUF'),
    littleEndian(version, 4),
    littleEndian(tensors.length, 8),
    littleEndian(Object.keys(keys).length, 8),
    ...Object.entries(keys).flatMap(([key, [type, bytes]]) => [
      lengthAndText(key),
      littleEndian(type, 4),
      bytes,
    ]),
    ...tensors.flatMap(({ name, sizes, type, offset }) => [
      lengthAndText(name),
      littleEndian(sizes.length, 4),
      Buffer.concat(sizes.map((size) => littleEndian(size, 8))),
      littleEndian(type, 4),
      littleEndian(offset, 8),
    ]),
  ]);
  const padding = (alignment - (header.length % alignment)) % alignment;
  return Buffer.concat([header, Buffer.alloc(padding + dataBytes)]);
}

function littleEndian(value: number, bytes: number): Buffer {
  const buffer = Buffer.alloc(8);
  buffer.writeBigUInt64LE(BigInt(value));
  return buffer.subarray(0, bytes);
}

function lengthAndText(value: string): Buffer {
  const bytes = Buffer.from(value);
  return Buffer.concat([littleEndian(bytes.length, 8), bytes]);
}

/** The `Failure` that a call throws; any other end is an error. */
export function failureOf(call: () => unknown): Failure {
  try {
    call();
  } catch (error) {
    if (error instanceof Failure) return error;
    throw error;
  }
  throw new Error('no Failure was thrown');
}

/** How a reader takes bytes from nowhere: `read`, or the code of its refusal. */
export function outcomeOf(call: () => unknown): string {
  try {
    call();
    return 'read';
  } catch (error) {
    if (error instanceof Failure && error.kind === 'input') return error.code;
    throw error;
  }
}
