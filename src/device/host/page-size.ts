import { endianness } from 'node:os';
import { join } from 'node:path';
import { readKernelBytes } from '../kernel-files.js';

const pageSizeKey = 6n;

/** Bytes of a memory page: 4096 on x64, up to 65536 on arm64; the kernel tells each process. */
export function readPageSize(procRoot: string): number {
  const bytes = readKernelBytes(join(procRoot, 'self/auxv'));
  return (bytes === undefined ? undefined : parsePageSize(bytes)) ?? 4096;
}

/** Reads the auxiliary vector: pairs of 64-bit key and value, ended by key 0. */
export function parsePageSize(auxv: Buffer): number | undefined {
  const little = endianness() === 'LE';
  const word = (at: number): bigint =>
    little ? auxv.readBigUInt64LE(at) : auxv.readBigUInt64BE(at);
  for (let at = 0; at + 16 <= auxv.length; at += 16) {
    const key = word(at);
    if (key === 0n) return undefined;
    if (key !== pageSizeKey) continue;
    const size = Number(word(at + 8));
    const isPowerOfTwo = size >= 4096 && size <= 2 ** 24 && Math.log2(size) % 1 === 0;
    return isPowerOfTwo ? size : undefined;
  }
  return undefined;
}
