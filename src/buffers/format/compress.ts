import { constants, deflateRawSync, inflateRawSync } from 'node:zlib';
import { splitPlanes } from './planes.js';

/** Looked at before anything is compressed: so many blocks of so many bytes. */
const sampleBlocks = 4;
const sampleBytes = 16_384;
/** What shrinks by less than a tenth is kept as it is: reading it again would cost more than it saves. */
const worthwhile = 0.9;
/** A byte of deflate makes at most 1032; a header that claims more lies. */
const maxExpansion = 1032;
/** The end of a deflate stream and its first block. */
const slackBytes = 1024;

/** Runs of equal bytes are found as well by a search that is several times as fast. */
const ways = { runs: { level: 1, strategy: constants.Z_RLE }, repeats: { level: 1 } } as const;
type Codec = keyof typeof ways;

/** How to compress numbers: which planes, and how each; undefined for one that is kept as it is. */
export type CompressionChoice = readonly (Codec | undefined)[];

/**
 * Tries a sample: the bytes as they lie, and in planes. Numbers that repeat exactly shrink better as
 * they lie; numbers that are alike shrink better in planes. Undefined where nothing shrinks.
 */
export function chooseCompression(bytes: Uint8Array, width: number): CompressionChoice | undefined {
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
export function compressed(plane: Uint8Array, way: Codec): Uint8Array | undefined {
  const out = deflateRawSync(plane, ways[way]);
  // A copy: what zlib answers may be the beginning of a larger piece of memory.
  return out.length < plane.length ? new Uint8Array(out) : undefined;
}

/** The plane again; undefined where the bytes do not make exactly so many. */
export function expanded(bytes: Uint8Array, length: number): Uint8Array | undefined {
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
