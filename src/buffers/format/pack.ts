import { crc32 } from 'node:zlib';
import { chooseCompression, compressed, expanded } from './compress.js';
import { itemBytes, rawBytesOf } from './data-types.js';
import { joinPlanes, splitPlanes } from './planes.js';
import type { OwnPart, Part } from './value.js';

/** One stretch of bytes of a part: as they are, or compressed. */
export interface Plane {
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
