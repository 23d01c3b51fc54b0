/** Smaller buffers cost less to make than to manage. */
const leastBytes = 4096;

/**
 * The size of the buffer that serves a request: four sizes for each doubling, so that requests of
 * similar size share buffers, and at most a fifth of a buffer stays unused.
 *
 * @example
 * sizeClass(5000); // 5120
 */
export function sizeClass(bytes: number): number {
  if (bytes <= leastBytes) return leastBytes;
  const step = 2 ** (Math.floor(Math.log2(bytes - 1)) - 2);
  return Math.ceil(bytes / step) * step;
}
