import type { Known } from '../../units/known.js';

/** RAM and swap of the whole machine. */
export interface MachineMemory {
  readonly totalBytes: Known<number>;
  /** What programs can still get without swapping: free memory and page cache that can go. */
  readonly availableBytes: Known<number>;
  readonly swapTotalBytes: Known<number>;
  readonly swapFreeBytes: Known<number>;
}

/**
 * Reads /proc/meminfo.
 *
 * @example
 * parseMeminfo('MemTotal: 1024 kB\nMemAvailable: 512 kB\n').availableBytes; // 524288
 */
export function parseMeminfo(text: string): MachineMemory {
  return {
    totalBytes: bytes(text, lines.total),
    // Kernels before 3.14 have no MemAvailable; MemFree alone would call every cache "used".
    availableBytes: bytes(text, lines.available),
    swapTotalBytes: bytes(text, lines.swapTotal),
    swapFreeBytes: bytes(text, lines.swapFree),
  };
}

/** Only the lines that are wanted, since this is read ten times a second. */
const lines = {
  total: /^MemTotal:\s+(\d{1,13}) kB$/m,
  available: /^MemAvailable:\s+(\d{1,13}) kB$/m,
  swapTotal: /^SwapTotal:\s+(\d{1,13}) kB$/m,
  swapFree: /^SwapFree:\s+(\d{1,13}) kB$/m,
} as const;

function bytes(text: string, line: RegExp): Known<number> {
  const match = line.exec(text);
  // The kernel's "kB" has always been 1024 bytes.
  return match === null ? 'unknown' : Number(match[1]) * 1024;
}
