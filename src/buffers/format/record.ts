import { crc32 } from 'node:zlib';
import { parseObject } from '../../files/own-file.js';
import { isDataType, itemBytes, rawBytesOf } from './data-types.js';
import type { PackedPart, Plane } from './pack.js';
import type { Part } from './value.js';

/** A value as one file holds it; `docs/buffers.md` describes the bytes. */
export interface BufferRecord {
  readonly key: string;
  readonly dictionary: boolean;
  readonly parts: readonly PackedPart[];
}

const magic = Buffer.from('PLIMBUF1', 'latin1');
/** Magic, length of the header, its checksum. */
export const prefixBytes = 16;
/** Planes begin at multiples of this, so that numbers in a mapped file are aligned. */
const alignment = 64;
/** A header names each part and its planes in about 200 bytes; this is a dictionary of 5,000 parts. */
const maxHeaderBytes = 1_048_576;

export interface RecordLayout {
  readonly key: string;
  readonly dictionary: boolean;
  readonly parts: readonly HeaderPart[];
  /** Where each plane begins, in the order of the parts. */
  readonly offsets: readonly number[];
  /** Of the whole file. */
  readonly totalBytes: number;
}

/** The pieces of a file, in order; together they are its bytes. */
export function encodeRecord({ key, dictionary, parts }: BufferRecord): readonly Uint8Array[] {
  const header = Buffer.from(
    JSON.stringify({
      key,
      dictionary,
      parts: parts.map(({ name, kind, dtype, shape, planes }) => ({
        name,
        kind,
        dtype,
        shape,
        planes: planes.map(({ codec, bytes, crc }) => [codec, bytes.length, crc]),
      })),
    }),
  );
  const prefix = Buffer.alloc(prefixBytes);
  magic.copy(prefix);
  prefix.writeUInt32LE(header.length, 8);
  prefix.writeUInt32LE(crc32(header), 12);
  const pieces: Uint8Array[] = [prefix, header];
  let at = prefixBytes + header.length;
  for (const { bytes } of parts.flatMap(({ planes }) => planes)) {
    const begin = aligned(at);
    if (begin > at) pieces.push(new Uint8Array(begin - at));
    pieces.push(bytes);
    at = begin + bytes.length;
  }
  return pieces;
}

/** Bytes of the header, from the first 16 of a file; undefined where they are not ours. */
export function headerBytes(prefix: Uint8Array): { length: number; crc: number } | undefined {
  const bytes = Buffer.from(prefix.buffer, prefix.byteOffset, prefix.byteLength);
  if (bytes.length < prefixBytes || !bytes.subarray(0, magic.length).equals(magic))
    return undefined;
  const length = bytes.readUInt32LE(8);
  return length <= maxHeaderBytes ? { length, crc: bytes.readUInt32LE(12) } : undefined;
}

/** Where everything of a record lies; undefined for a header that is damaged or makes no sense. */
export function layoutOf(header: Uint8Array, crc: number): RecordLayout | undefined {
  if (crc32(header) !== crc) return undefined;
  const read = readHeader(Buffer.from(header).toString('utf8'));
  if (read === undefined) return undefined;
  const offsets: number[] = [];
  let at = prefixBytes + header.length;
  for (const { bytes } of read.parts.flatMap(({ planes }) => planes)) {
    offsets.push(aligned(at));
    at = aligned(at) + bytes;
  }
  return Number.isSafeInteger(at) ? { ...read, offsets, totalBytes: at } : undefined;
}

function aligned(at: number): number {
  return Math.ceil(at / alignment) * alignment;
}

/** A plane of which the bytes lie elsewhere. */
interface HeaderPlane {
  readonly codec: Plane['codec'];
  readonly bytes: number;
  readonly crc: number;
}

interface HeaderPart extends Omit<Part, 'bytes'> {
  readonly planes: readonly HeaderPlane[];
}

/** NumPy has no more dimensions either. */
const maxDimensions = 64;
const kinds = ['bytes', 'array', 'tensor'] as const;
const codecs = ['none', 'deflate'] as const;

/** The header of a record; undefined where one field of it cannot be. */
export function readHeader(
  text: string,
): { key: string; dictionary: boolean; parts: HeaderPart[] } | undefined {
  const { key, dictionary, parts } = parseObject(text) ?? {};
  if (typeof key !== 'string' || typeof dictionary !== 'boolean' || !Array.isArray(parts)) {
    return undefined;
  }
  const read = parts.map(readPart).filter((part) => part !== undefined);
  const complete = read.length === parts.length && (dictionary || read.length === 1);
  return complete ? { key, dictionary, parts: read } : undefined;
}

function readPart(found: unknown): HeaderPart | undefined {
  const { name, kind, dtype, shape, planes }: Record<string, unknown> = { ...Object(found) };
  const known = kinds.find((one) => one === kind);
  if (typeof name !== 'string' || known === undefined || !isDataType(dtype)) return undefined;
  if (!Array.isArray(shape) || shape.length > maxDimensions || !shape.every(isCount)) {
    return undefined;
  }
  const rawBytes = rawBytesOf({ dtype, shape });
  const read = Array.isArray(planes) ? planes.map(readPlane) : [];
  const whole = read.filter((plane) => plane !== undefined);
  const widths = [1, itemBytes[dtype]];
  if (!isCount(rawBytes) || whole.length !== read.length || !widths.includes(read.length)) {
    return undefined;
  }
  // One that is kept as it is has exactly the bytes that the shape says.
  const fits = whole.every(
    ({ codec, bytes }) => codec !== 'none' || bytes === rawBytes / read.length,
  );
  return fits ? { name, kind: known, dtype, shape, planes: whole } : undefined;
}

function readPlane(found: unknown): HeaderPlane | undefined {
  const [codec, bytes, crc]: unknown[] = Array.isArray(found) ? found : [];
  const known = codecs.find((one) => one === codec);
  return known !== undefined && isCount(bytes) && isCount(crc)
    ? { codec: known, bytes, crc }
    : undefined;
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}
