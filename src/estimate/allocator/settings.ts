import { Failure } from '../../failure.js';
import { GiB, MiB } from '../../units/bytes.js';

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

/** Returns the bytes to ask of the driver if no cached block serves a block of `size` bytes. */
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

/**
 * Where the driver puts a new segment. It matters because best fit breaks ties by the lowest address.
 * - `driver`: as seen on Linux, driver 13.0, in jobs that run kernels (see `DriverAddresses`); where a stream
 *   says when its first kernel runs, as in a fresh process until then.
 * - `fresh-driver`: the same, as long as no kernel has run.
 * - `falling`: each new segment below all earlier ones.
 * - `rising`: each new segment above all earlier ones; also what a PyTorch does that breaks ties by
 *   the age of the segment.
 */
export type AddressOrder = 'driver' | 'fresh-driver' | 'falling' | 'rising';

/** How the simulated allocator behaves. `defaultSettings` is PyTorch with nothing configured. */
export interface AllocatorSettings {
  readonly addresses: AddressOrder;
  /** `large_segment_size_mb` in bytes: segments that requests below 10 MiB share; large pages. */
  readonly largeSegmentBytes: number;
  /** `max_split_size_mb` in bytes: blocks of this size or more are not split. */
  readonly maxSplitBytes: number | 'unlimited';
  /** `max_non_split_rounding_mb` in bytes: how much too large an unsplit block may be. */
  readonly maxNonSplitRoundingBytes: number;
  /** `roundup_power2_divisions`, one entry a power of two from 1 MiB to 32 GiB; empty: off. */
  readonly roundupDivisions: readonly number[];
  /** `garbage_collection_threshold`: a share of `allowedBytes`; 0: off. */
  readonly garbageCollectionThreshold: number;
  readonly expandableSegments: boolean;
  /**
   * When a block that other streams use (`record_stream`) can be used again after its free: at once, as
   * where their work is short, or only when the host has waited for them.
   */
  readonly streamWork: 'prompt' | 'awaited';
  /** The cap of `set_per_process_memory_fraction`: what all segments together may take. */
  readonly allowedBytes: number | 'unlimited';
  /** Bytes of the device for segments; the driver refuses more. */
  readonly deviceBytes: number | 'unlimited';
  /** The device's whole memory; an expandable segment reserves 9/8 of it as address space. */
  readonly deviceTotalBytes: number;
}

export const defaultSettings: AllocatorSettings = {
  addresses: 'driver',
  largeSegmentBytes: sharedSegment,
  maxSplitBytes: 'unlimited',
  maxNonSplitRoundingBytes: sharedSegment,
  roundupDivisions: [],
  garbageCollectionThreshold: 0,
  expandableSegments: false,
  streamWork: 'prompt',
  allowedBytes: 'unlimited',
  deviceBytes: 'unlimited',
  deviceTotalBytes: 141 * GiB,
};

/** Refuses settings that the real allocator would refuse, before they give silly numbers. */
export function checkSettings(settings: AllocatorSettings): void {
  const size = (bytes: number | 'unlimited') => bytes === 'unlimited' || isSize(bytes);
  const { maxSplitBytes, roundupDivisions, garbageCollectionThreshold } = settings;
  const { largeSegmentBytes } = settings;
  if (!size(settings.allowedBytes)) refuse('allowedBytes', 'a whole number of bytes');
  if (!size(settings.deviceBytes)) refuse('deviceBytes', 'a whole number of bytes');
  if (!isSize(settings.deviceTotalBytes) || settings.deviceTotalBytes === 0) {
    refuse('deviceTotalBytes', 'a whole number of bytes');
  }
  if (!isSize(largeSegmentBytes) || largeSegmentBytes <= smallestOwnSegment) {
    refuse('largeSegmentBytes', 'more than 10 MiB');
  }
  const splits = maxSplitBytes === 'unlimited' || maxSplitBytes >= largeSegmentBytes;
  if (!size(maxSplitBytes) || !splits) refuse('maxSplitBytes', 'at least largeSegmentBytes');
  if (!isSize(settings.maxNonSplitRoundingBytes)) {
    refuse('maxNonSplitRoundingBytes', 'a whole number of bytes');
  }
  if (!(garbageCollectionThreshold >= 0 && garbageCollectionThreshold < 1)) {
    refuse('garbageCollectionThreshold', 'at least 0 and below 1');
  }
  const divisionsFit =
    (roundupDivisions.length === 0 || roundupDivisions.length === roundupIntervals) &&
    roundupDivisions.every((steps) => steps === 0 || isPowerOfTwo(steps));
  if (!divisionsFit) refuse('roundupDivisions', `none or ${roundupIntervals} powers of two (or 0)`);
}

/**
 * The cap that a memory fraction stands for, cut to whole bytes as PyTorch does.
 *
 * @example
 * allowedBytesOf(0.5, 80 * 1024 ** 3); // 42949672960
 */
export function allowedBytesOf(memoryFraction: number, deviceTotalBytes: number): number {
  return Math.floor(memoryFraction * deviceTotalBytes);
}

export function isPowerOfTwo(value: number): boolean {
  return Number.isSafeInteger(value) && value > 0 && Number.isInteger(Math.log2(value));
}

function isSize(bytes: number): boolean {
  return Number.isSafeInteger(bytes) && bytes >= 0;
}

function refuse(name: string, wanted: string): never {
  throw new Failure({
    kind: 'input',
    code: 'bad-allocator-setting',
    fact: `The allocator setting ${name} must be ${wanted}.`,
    next: 'Correct it or leave it out.',
  });
}
