import { MiB } from '../../units/bytes.js';

/** The constants of PyTorch's CUDA caching allocator (2.x). Changing one breaks the recorded peaks. */
export const blockStep = 512;
/** Requests up to here live in the small pool. */
export const largestSmall = MiB;
export const smallSegment = 2 * MiB;
/** A large request below `smallestOwnSegment` takes a shared segment, usually of this size. */
export const sharedSegment = 20 * MiB;
export const smallestOwnSegment = 10 * MiB;
/** Larger segments, and the pages of the driver, come in this step. */
export const segmentStep = 2 * MiB;
/** More than any machine has; keeps every sum of sizes an exact integer. */
export const largestRequest = 2 ** 50;

/** `bytes` rounded up to a multiple of `step`; exact for every size below 2^53. */
export function roundUp(bytes: number, step: number): number {
  return Math.ceil(bytes / step) * step;
}

/** What the driver is asked for when no cached block serves a block of `size` bytes. */
export function segmentSizeFor(size: number, shared: number): number {
  if (size <= largestSmall) return smallSegment;
  if (size < smallestOwnSegment) return shared;
  return roundUp(size, segmentStep);
}

/** One entry for each power of two from 1 MiB to 32 GiB; smaller and larger sizes use the ends. */
export const roundupIntervals = 16;

/**
 * The size of the block for a request: a multiple of 512 bytes, or, with
 * `roundup_power2_divisions`, the next of so many even steps between two powers of two.
 *
 * @example
 * blockSizeFor(1000, []); // 1024
 * blockSizeFor(1200 * 1024 ** 2, Array(16).fill(4)); // 1280 MiB
 */
export function blockSizeFor(bytes: number, divisions: readonly number[]): number {
  if (bytes <= blockStep) return blockStep;
  if (divisions.length > 0) {
    const floor = powerOfTwoFloor(bytes);
    const interval = Math.min(Math.max(Math.log2(floor) - 20, 0), roundupIntervals - 1);
    const steps = divisions[interval] ?? 0;
    if (steps > 1 && bytes > blockStep * steps) {
      return bytes === floor ? bytes : roundUp(bytes, floor / steps);
    }
  }
  return roundUp(bytes, blockStep);
}

function powerOfTwoFloor(value: number): number {
  const power = 2 ** Math.floor(Math.log2(value));
  // log2 of a value just below a power of two can round up to it.
  return power > value ? power / 2 : power;
}
