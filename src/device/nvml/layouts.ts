import type { Known } from '../../units/known.js';

/**
 * How NVML lays out what it writes. Every platform it runs on is little-endian with 8-byte
 * alignment, so plain offsets hold everywhere.
 */

/** Bytes at which the figures of a memory record lie. */
export interface MemoryLayout {
  readonly sizeBytes: number;
  /** What the caller writes into the first word; 0 where the record carries no version. */
  readonly version: number;
  readonly total: number;
  readonly free: number;
  readonly used: number;
}

/**
 * Version 1. Its `used` also counts what the driver keeps for itself (several hundred MiB on a
 * large card), so it reads higher than version 2 and nvidia-smi do on the same card; only the
 * share that programs can get, `free`, is the same in both.
 */
export const memoryV1: MemoryLayout = { sizeBytes: 24, version: 0, total: 0, free: 8, used: 16 };

/** Version 2: `used` is what programs took; `reserved` (at 16) is the driver's own part. */
export const memoryV2: MemoryLayout = {
  sizeBytes: 40,
  version: 0x0200_0028,
  total: 8,
  free: 24,
  used: 32,
};

const twoTo32 = 4_294_967_296;

/**
 * An unsigned 64-bit count of bytes. All ones is NVML's word for "not available"; nothing real is
 * above 2^53. Two 32-bit halves, because a BigInt would be allocated on each reading.
 */
export function readBytes64(view: DataView, offset: number): Known<number> {
  const high = view.getUint32(offset + 4, true);
  return high < 0x20_0000 ? high * twoTo32 + view.getUint32(offset, true) : 'unknown';
}

/** A C string in a field of fixed size. */
export function readCString(bytes: Uint8Array): string {
  const end = bytes.indexOf(0);
  return Buffer.from(bytes.subarray(0, end === -1 ? bytes.length : end)).toString('utf8');
}
