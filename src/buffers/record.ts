import { constants, crc32, deflateRawSync, inflateRawSync } from 'node:zlib';
import { parseObject } from '../files/own-file.js';
import { isDataType, itemBytes, type OwnPart, type Part, rawBytesOf } from './value.js';

/** One stretch of bytes of a part: as they are, or compressed. */
interface Plane {
  readonly codec: 'none' | 'deflate';
  readonly crc: number;
  readonly bytes: Uint8Array;
}

/** A part as it lies in memory or in a file: one plane, or one for each byte of its numbers. */
export interface PackedPart extends Omit<Part, 'bytes'> {
  readonly planes: readonly Plane[];
}

/** Smaller ones are not worth a compressor's start. */
const leastBytes = 1024;

export function packPart({ bytes, ...about }: Part, compress: boolean): PackedPart {
  const width = itemBytes[about.dtype];
  const small = !compress || bytes.length < leastBytes;
  const choice = small ? undefined : chooseCompression(bytes, width);
  // A copy: the caller may change his own.
  if (choice === undefined) return { ...about, planes: [kept(bytes.slice(), 'none')] };
  const split = choice.length === 1 ? [bytes] : splitPlanes(bytes, width);
  const planes = split.map((plane, index) => {
    const encoding = choice[index];
    const smaller = encoding && compressed(plane, encoding);
    return smaller
      ? kept(smaller, 'deflate')
      : kept(plane === bytes ? plane.slice() : plane, 'none');
  });
  return { ...about, planes };
}

function kept(bytes: Uint8Array, codec: Plane['codec']): Plane {
  return { codec, bytes, crc: crc32(bytes) };
}

/** The part again, in memory of its own; undefined where a byte is not what it was. */
export function unpackPart({ planes, ...about }: PackedPart): OwnPart | undefined {
  const length = rawBytesOf(about) / planes.length;
  const plain: Uint8Array[] = [];
  for (const { codec, bytes, crc } of planes) {
    if (crc32(bytes) !== crc) return undefined;
    const out = codec === 'none' ? bytes : expanded(bytes, length);
    if (out?.length !== length) return undefined;
    plain.push(out);
  }
  const [first = new Uint8Array()] = plain;
  // A copy begins at 0 of its memory, as typed arrays need it.
  return { ...about, bytes: plain.length === 1 ? new Uint8Array(first) : joinPlanes(plain) };
}

/** Looked at before anything is compressed: so many blocks of so many bytes. */
const sampleBlocks = 4;
const sampleBytes = 16_384;
/** Items that shrink by less than a tenth are kept as they are: reading them again costs more than it saves. */
const worthwhile = 0.9;
/** A byte of deflate makes at most 1032; a header that claims more lies. */
const maxExpansion = 1032;
/** The end of a deflate stream and its first block. */
const slackBytes = 1024;

/** Runs of equal bytes are found as well by a search that is several times as fast. */
const ways = { runs: { level: 1, strategy: constants.Z_RLE }, repeats: { level: 1 } } as const;
type Codec = keyof typeof ways;

/** How to compress numbers: which planes, and how each; undefined for one that is kept as it is. */
type CompressionChoice = readonly (Codec | undefined)[];

/**
 * Tries a sample: the bytes as they lie, and in planes. Numbers that repeat exactly shrink better as
 * they lie; numbers that are alike shrink better in planes. Undefined where nothing shrinks.
 */
function chooseCompression(bytes: Uint8Array, width: number): CompressionChoice | undefined {
  const sample = sampleOf(bytes, width);
  const whole = tryPlane(sample);
  const planes = width === 1 ? [whole] : splitPlanes(sample, width).map(tryPlane);
  const together = planes.reduce((sum, { size }) => sum + size, 0);
  if (Math.min(together, whole.size) >= worthwhile * sample.length) return undefined;
  return whole.size < together ? [whole.way] : planes.map(({ way }) => way);
}

function tryPlane(plane: Uint8Array): { way: Codec | undefined; size: number } {
  const runs = deflateRawSync(plane, ways.runs).length;
  const repeats = deflateRawSync(plane, ways.repeats).length;
  const size = Math.min(runs, repeats);
  if (size >= worthwhile * plane.length) return { way: undefined, size: plane.length };
  return { way: repeats < worthwhile * runs ? 'repeats' : 'runs', size };
}

/** The compressed bytes; undefined where they would not be smaller. */
function compressed(plane: Uint8Array, way: Codec): Uint8Array | undefined {
  const out = deflateRawSync(plane, ways[way]);
  // A copy: what zlib answers may be the beginning of a larger piece of memory.
  return out.length < plane.length ? new Uint8Array(out) : undefined;
}

/** The plane again; undefined where the bytes do not make exactly so many. */
function expanded(bytes: Uint8Array, length: number): Uint8Array | undefined {
  if (length > bytes.length * maxExpansion + slackBytes) return undefined;
  try {
    const out = inflateRawSync(bytes, { maxOutputLength: Math.max(1, length) });
    return out.length === length ? out : undefined;
  } catch {
    return undefined;
  }
}

function sampleOf(bytes: Uint8Array, width: number): Uint8Array {
  if (bytes.length <= sampleBlocks * sampleBytes) return bytes;
  const out = new Uint8Array(sampleBlocks * sampleBytes);
  // Blocks begin where a number begins.
  const apart = Math.floor((bytes.length - sampleBytes) / (sampleBlocks - 1) / width) * width;
  for (let block = 0; block < sampleBlocks; block += 1) {
    out.set(bytes.subarray(block * apart, block * apart + sampleBytes), block * sampleBytes);
  }
  return out;
}

/**
 * Byte shuffle: all first bytes of the numbers, then all second ones, and so on. Signs and exponents
 * of neighbours are alike, so their planes shrink; the last bytes of a mantissa are noise and are
 * left alone.
 */
export function splitPlanes(bytes: Uint8Array, width: number): Uint8Array[] {
  const length = bytes.length / width;
  return Array.from({ length: width }, (_, plane) => {
    const out = new Uint8Array(length);
    for (let to = 0, from = plane; to < length; to += 1, from += width) out[to] = bytes[from] ?? 0;
    return out;
  });
}

export function joinPlanes(planes: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const width = planes.length;
  const out = new Uint8Array((planes[0]?.length ?? 0) * width);
  for (const [plane, bytes] of planes.entries()) {
    for (let from = 0, to = plane; from < bytes.length; from += 1, to += width) {
      out[to] = bytes[from] ?? 0;
    }
  }
  return out;
}

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
  /** Start of each plane, in the order of the parts. */
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

/** Finds the parts of a record; undefined for a header that is damaged or makes no sense. */
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
