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
  const found = new Map<string, number>();
  for (const line of text.split('\n')) {
    // The kernel's "kB" has always been 1024 bytes.
    const match = /^(\w+):\s+(\d{1,13}) kB$/.exec(line);
    if (match?.[1] !== undefined) found.set(match[1], Number(match[2]) * 1024);
  }
  const bytes = (name: string): Known<number> => found.get(name) ?? 'unknown';
  return {
    totalBytes: bytes('MemTotal'),
    // Kernels before 3.14 have no MemAvailable; MemFree alone would call every cache "used".
    availableBytes: bytes('MemAvailable'),
    swapTotalBytes: bytes('SwapTotal'),
    swapFreeBytes: bytes('SwapFree'),
  };
}
