import { crc32 } from 'node:zlib';
import { MiB } from '../../units/bytes.js';
import { refuseXz } from './bad-xz.js';

/** `xz -9` uses 64 MiB; a larger window is seldom, and would be room for a stranger's file. */
const largestDictionary = 64 * MiB;
const lzma2 = 0x21;

/** Checks the header of a block and answers the size of its dictionary. */
export function dictionarySize(header: Uint8Array): number {
  const length = header.length;
  if (!endsWithSum(header)) refuseXz('the header of a block is damaged');
  const flags = header[1] ?? 0;
  if ((flags & 0x3f) !== 0) refuseXz('it is compressed with more than LZMA2');
  let at = 2;
  if (flags & 0x40) at = skipNumber(header, at, length);
  if (flags & 0x80) at = skipNumber(header, at, length);
  if (header[at] !== lzma2 || header[at + 1] !== 1) refuseXz('it is not packed with LZMA2');
  const bits = header[at + 2] ?? 0;
  const size = (2 | (bits & 1)) * 2 ** (Math.floor(bits / 2) + 11);
  if (bits > 40 || size > largestDictionary) {
    refuseXz(`its dictionary is larger than ${largestDictionary / MiB} MiB`);
  }
  return size;
}

/** The last four bytes are the CRC-32 of those before. */
export function endsWithSum(bytes: Uint8Array): boolean {
  const end = bytes.length - 4;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  return end >= 0 && crc32(bytes.subarray(0, end)) === view.getUint32(end, true);
}

function skipNumber(bytes: Uint8Array, from: number, end: number): number {
  let at = from;
  while (at < end && at < from + 9 && (bytes[at] ?? 0) >= 0x80) at += 1;
  return at + 1;
}
