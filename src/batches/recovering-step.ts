import { callable, checkArguments, checkOptions, list, whole } from '../units/arguments.js';
import { isKnown, type Known } from '../units/known.js';
import {
  cleanStepsToGrow,
  evenPart,
  growBack,
  keepBelow,
  type Observation,
  type StepReading,
  smallerMicrobatch,
} from './sizes.js';

/** The microbatch that a step function is given. */
export interface Microbatch {
  /** Its part of the whole batch, by weight: scale a mean by it, and the parts add up to the mean. */
  readonly share: number;
  /** Index of its first sample in the batch. */
  readonly offset: number;
  /** How often these samples were tried before. */
  readonly retry: number;
}

export interface RecoveringStepOptions<S> {
  /** Samples at once, to begin with; the whole batch unless given. */
  readonly microbatch?: number;
  /** Weight of a sample, such as its number of tokens (1). */
  readonly weight?: (sample: S) => number;
  readonly isOutOfMemory?: (error: unknown) => boolean;
  /** Takes back what a failed try has done, before the next one. */
  readonly undo?: (samples: readonly S[], error: unknown) => void | Promise<void>;
  readonly onResize?: (size: number, error: unknown) => void;
  /** So many batches must go well before a larger microbatch is tried again (20). */
  readonly growAfter?: number;
  /** Measures the memory, so that sizes come from peaks and a limit, and not by halves. */
  readonly memory?: () => StepMemory;
}

/** The result of a batch: the result of each microbatch, in order, once. */
export interface StepResult<R> {
  readonly parts: readonly {
    readonly value: R;
    readonly share: number;
    readonly samples: number;
  }[];
  /** How often memory ran out on the way. */
  readonly retries: number;
}

export interface RecoveringStep<S, R> {
  (batch: readonly S[]): Promise<StepResult<R>>;
  /** Samples that are tried at once now; Infinity while no batch was too large. */
  microbatch(): number;
}

/**
 * Makes a step over a batch survive when memory runs out: the batch runs as microbatches, the one
 * that failed runs again in smaller ones, and those that were done stay done. The step function
 * must do nothing for good before it succeeds, or `undo` must take it back.
 *
 * @example
 * const step = recoveringStep(async (samples, { share }) => share * (await lossOf(samples)));
 * const { parts } = await step(batch);
 * const loss = parts.reduce((sum, { value }) => sum + value, 0); // the mean over the whole batch
 */
export function recoveringStep<S, R>(
  run: (samples: readonly S[], microbatch: Microbatch) => R | Promise<R>,
  options: RecoveringStepOptions<S> = {},
): RecoveringStep<S, R> {
  checkArguments('recoveringStep', { run }, { run: callable });
  checkOptions('recoveringStep', options, {
    microbatch: whole(1),
    weight: callable,
    isOutOfMemory: callable,
    undo: callable,
    onResize: callable,
    growAfter: whole(1),
    memory: callable,
  });
  const isOutOfMemory = options.isOutOfMemory ?? isOutOfMemoryError;
  const size = createStepSize({
    first: options.microbatch ?? Number.POSITIVE_INFINITY,
    growAfter: options.growAfter ?? cleanStepsToGrow,
    memory: options.memory,
  });

  async function step(batch: readonly S[]): Promise<StepResult<R>> {
    checkArguments('a recovering step', { batch }, { batch: list });
    const weights = options.weight === undefined ? undefined : batch.map(options.weight);
    const wholeWeight = weights === undefined ? batch.length : sum(weights);
    const parts: { value: R; share: number; samples: number }[] = [];
    let retries = 0;
    let retry = 0;
    for (let offset = 0; offset < batch.length; ) {
      const samples = batch.slice(offset, offset + evenPart(batch.length - offset, size.now));
      const weight =
        weights === undefined
          ? samples.length
          : sum(weights.slice(offset, offset + samples.length));
      const share = wholeWeight === 0 ? 0 : weight / wholeWeight;
      try {
        const value = await run(samples, { share, offset, retry });
        parts.push({ value, share, samples: samples.length });
        offset += samples.length;
        retry = 0;
      } catch (error) {
        if (!isOutOfMemory(error) || samples.length <= 1) throw error;
        await options.undo?.(samples, error);
        retries++;
        retry++;
        const smaller = size.failed(samples.length);
        options.onResize?.(smaller, error);
      }
    }
    if (retries === 0 && parts.length > 0) growBatchBack(batch.length, parts);
    return { parts, retries };
  }

  function growBatchBack(batch: number, parts: readonly { readonly samples: number }[]): void {
    const grown = size.wentWell(batch, Math.max(...parts.map(({ samples }) => samples)));
    if (grown !== undefined) options.onResize?.(grown, undefined);
  }

  return Object.assign(step, { microbatch: () => size.now });
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}

/** The measured memory of a step. */
interface StepMemory {
  /** The highest since it was last asked. */
  readonly peakBytes: Known<number>;
  readonly limitBytes: Known<number>;
  /** Bytes held before the first sample. */
  readonly baseBytes?: Known<number>;
}

/** A program that sees many sizes keeps the newest of them. */
const maxSizes = 16;

/** How many samples a step takes at once, from what failed and what was measured. */
interface StepSize {
  /** Infinity while no batch was too large. */
  readonly now: number;
  /** After a failure of so many samples: the next size. */
  failed(samples: number): number;
  /** After a batch without a failure: the next size where it changed. */
  wentWell(batch: number, largestPart: number): number | undefined;
}

function createStepSize(options: {
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

/**
 * Whether an error says that memory ran out: a buffer that could not be made, or a library that
 * says so. Give your own test where yours says it otherwise.
 *
 * @example
 * isOutOfMemoryError(new RangeError('Array buffer allocation failed')); // true
 */
export function isOutOfMemoryError(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (
    error instanceof RangeError &&
    /allocation failed|invalid (?:typed )?array (?:buffer )?length/i.test(error.message)
  ) {
    return true;
  }
  const code = 'code' in error ? String(error.code) : '';
  return (
    ['ERR_MEMORY_ALLOCATION_FAILED', 'ERR_WORKER_OUT_OF_MEMORY', 'ENOMEM'].includes(code) ||
    error.name === 'OutOfMemoryError' ||
    /\bout of memory\b|failed to allocate memory|\bbad_alloc\b/i.test(error.message)
  );
}
