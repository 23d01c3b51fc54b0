import { crc32 } from 'node:zlib';
import { type HeaderPart, readHeader } from './header.js';
import type { PackedPart } from './pack.js';

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
