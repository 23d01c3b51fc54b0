import { isOutOfMemoryError } from './out-of-memory-error.js';

/** What a step function is told about the microbatch at hand. */
export interface Microbatch {
  /** Its part of the whole batch, by weight: scale a mean by it, and the parts add up to the mean. */
  readonly share: number;
  /** Where in the batch it begins. */
  readonly offset: number;
  /** How often these samples were tried before. */
  readonly retry: number;
}

export interface RecoveringStepOptions<S> {
  /** Samples at once, to begin with; the whole batch unless given. */
  readonly microbatch?: number;
  /** What a sample counts, such as its tokens (1). */
  readonly weight?: (sample: S) => number;
  readonly isOutOfMemory?: (error: unknown) => boolean;
  /** Takes back what a failed try has done, before the next one. */
  readonly undo?: (samples: readonly S[], error: unknown) => void | Promise<void>;
  readonly onResize?: (size: number, error: unknown) => void;
  /** So many batches must go well before a larger microbatch is tried again (20). */
  readonly growAfter?: number;
}

/** What one batch came to: each microbatch's result, in order, once. */
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

const defaultGrowAfter = 20;

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
  const isOutOfMemory = options.isOutOfMemory ?? isOutOfMemoryError;
  const growAfter = options.growAfter ?? defaultGrowAfter;
  const first = options.microbatch ?? Number.POSITIVE_INFINITY;
  let size = first;
  let cleanBatches = 0;
  let failedAt = Number.POSITIVE_INFINITY;

  async function step(batch: readonly S[]): Promise<StepResult<R>> {
    const weights = options.weight === undefined ? undefined : batch.map(options.weight);
    const whole = weights === undefined ? batch.length : sum(weights);
    const parts: { value: R; share: number; samples: number }[] = [];
    let retries = 0;
    let retry = 0;
    for (let offset = 0; offset < batch.length; ) {
      const samples = batch.slice(offset, offset + Math.min(size, batch.length));
      const weight =
        weights === undefined
          ? samples.length
          : sum(weights.slice(offset, offset + samples.length));
      const share = whole === 0 ? 0 : weight / whole;
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
        cleanBatches = 0;
        failedAt = Math.min(failedAt, samples.length);
        size = Math.max(1, Math.floor(samples.length / 2));
        options.onResize?.(size, error);
      }
    }
    if (retries === 0) growBack();
    return { parts, retries };
  }

  function growBack(): void {
    if (size >= first || ++cleanBatches < growAfter) return;
    cleanBatches = 0;
    // A size that failed is left alone for long; then it may be tried once more.
    const wanted = Math.min(first, size * 2);
    if (wanted >= failedAt) failedAt = Number.POSITIVE_INFINITY;
    else {
      size = wanted;
      options.onResize?.(size, undefined);
    }
  }

  return Object.assign(step, { microbatch: () => size });
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}
