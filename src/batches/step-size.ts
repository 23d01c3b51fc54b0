import { isKnown, type Known } from '../units/known.js';
import type { Observation } from './sizes/fit.js';
import { growBack } from './sizes/grow-back.js';
import { keepBelow, type StepReading } from './sizes/keep-below.js';
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
  /** After a batch without a failure: the next size where it changed. */
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
  let steps = 0;
  let readings: readonly StepReading[] = [];

  function observe(batch: number, peakBytes: Known<number>): void {
    if (!isKnown(peakBytes) || (peaks.get(batch)?.peakBytes ?? 0) >= peakBytes) return;
    peaks.delete(batch);
    peaks.set(batch, { batch, peakBytes, isAtLeast: false });
    const [oldest] = peaks.keys();
    if (peaks.size > maxSizes && oldest !== undefined) peaks.delete(oldest);
  }

  /** A smaller size where the next batch would pass the load line. */
  function ahead(microbatch: number, memory: StepMemory): number | undefined {
    if (!isKnown(memory.peakBytes)) return undefined;
    const { peakBytes, limitBytes, baseBytes = 'unknown' } = memory;
    const base = isKnown(baseBytes) ? baseBytes : 0;
    readings = [...readings, { step: steps, microbatch, baseBytes: base, peakBytes }].slice(-8);
    const observations = [...peaks.values()];
    const next = { step: steps + 1, microbatch, baseBytes: base, limitBytes };
    return keepBelow({ ...next, readings, observations })?.microbatch;
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
      steps++;
      const foreseen = ahead(largestPart, memory);
      if (foreseen !== undefined) {
        // Growing back waits twice as long: what grows may go on growing.
        failedGrowths++;
        cleanSteps = 0;
        grewFrom = 0;
        size = foreseen;
        return size;
      }
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
