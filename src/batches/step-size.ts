import { isKnown, type Known } from '../units/known.js';
import type { Observation } from './sizes/fit.js';
import { growBack } from './sizes/grow-back.js';
import { smallerMicrobatch } from './sizes/smaller-microbatch.js';

/** What can be measured of the memory that a step has. */
export interface StepMemory {
  /** The highest since it was last asked. */
  readonly peakBytes: Known<number>;
  readonly limitBytes: Known<number>;
  /** What is held before the first sample. */
  readonly baseBytes?: Known<number>;
}

/** A program that sees many sizes keeps the newest of them. */
const maxSizes = 16;

/** How many samples a step takes at once, from what failed and what was measured. */
export interface StepSize {
  /** Infinity while no batch was too large. */
  readonly now: number;
  /** After a failure of so many samples: the next size. */
  failed(samples: number): number;
  /** After a batch without a failure: the next size where it grew. */
  wentWell(batch: number, largestPart: number): number | undefined;
}

export function createStepSize(options: {
  readonly first: number;
  readonly growAfter: number;
  readonly memory: (() => StepMemory) | undefined;
}): StepSize {
  const { first, growAfter } = options;
  const unmeasured: StepMemory = { peakBytes: 'unknown', limitBytes: 'unknown' };
  const look = () => options.memory?.() ?? unmeasured;
  const peaks = new Map<number, Observation>();
  let size = first;
  let cleanSteps = 0;
  let failedGrowths = 0;
  let grewFrom = 0;
  let smallestFailed: Known<number> = 'unknown';

  function observe(batch: number, peakBytes: Known<number>): void {
    if (!isKnown(peakBytes) || (peaks.get(batch)?.peakBytes ?? 0) >= peakBytes) return;
    peaks.delete(batch);
    peaks.set(batch, { batch, peakBytes, isAtLeast: false });
    const [oldest] = peaks.keys();
    if (peaks.size > maxSizes && oldest !== undefined) peaks.delete(oldest);
  }

  return {
    get now() {
      return size;
    },
    failed(samples) {
      const memory = look();
      for (const batch of peaks.keys()) if (batch >= samples) peaks.delete(batch);
      const smaller = smallerMicrobatch({
        microbatch: samples,
        askedBytes: 'unknown',
        baseBytes: 'unknown',
        ...memory,
        earlier: [...peaks.values()],
      });
      size = smaller?.most ?? 1;
      cleanSteps = 0;
      smallestFailed = isKnown(smallestFailed) ? Math.min(smallestFailed, samples) : samples;
      if (grewFrom > 0 && samples > grewFrom) failedGrowths++;
      grewFrom = 0;
      return size;
    },
    wentWell(batch, largestPart) {
      const memory = look();
      observe(largestPart, memory.peakBytes);
      if (isKnown(smallestFailed) && largestPart >= smallestFailed) smallestFailed = 'unknown';
      cleanSteps++;
      const grown = growBack({
        microbatch: size,
        batch: Math.min(batch, first),
        cleanSteps,
        failedGrowths,
        smallestFailed,
        limitBytes: memory.limitBytes,
        baseBytes: memory.baseBytes ?? 'unknown',
        observations: [...peaks.values()],
        growAfter,
        mayGuess: options.memory === undefined,
      });
      if (grown === undefined) return undefined;
      cleanSteps = 0;
      grewFrom = largestPart;
      size = grown.microbatch;
      return size;
    },
  };
}
