/** So many bins for each power of two, and from twice as many steps on. */
const binBits = 3;
const evenBins = 2 << binBits;
/** More than 1 TiB: all such sizes share the last bin. */
const largestSteps = 2 ** 31 - 1;

/** How many bins there are: as many whole words of bits as `binOf` needs. */
export const binCount = 256;

/**
 * The number of the bin for blocks of a size. A larger size is never in a lower bin; those of one bin differ by an
 * eighth at most, small ones not at all.
 *
 * @example
 * binOf(512); // 1
 * binOf(20 * 1024 ** 2) > binOf(16 * 1024 ** 2); // true
 */
export function binOf(size: number): number {
  // In steps of `blockStep`, written as a number: the division becomes a product.
  const steps = size / 512;
  if (steps < evenBins) return steps | 0;
  const whole = steps < largestSteps ? steps | 0 : largestSteps;
  const power = 31 - Math.clz32(whole);
  const within = (whole >>> (power - binBits)) & ((1 << binBits) - 1);
  return evenBins + ((power - binBits - 1) << binBits) + within;
}
