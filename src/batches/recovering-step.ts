import { callable, checkOptions, whole } from './options.js';
import { isOutOfMemoryError } from './out-of-memory-error.js';
import { evenPart } from './sizes/even-parts.js';
import { cleanStepsToGrow } from './sizes/grow-back.js';
import { createStepSize, type StepMemory } from './step-size.js';

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
  /** Measures the memory, so that sizes come from peaks and a limit, and not by halves. */
  readonly memory?: () => StepMemory;
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
  checkOptions('recoveringStep', { run }, { run: callable }, ['run']);
  checkOptions(
    'recoveringStep',
    { ...Object(options) },
    {
      microbatch: whole(1),
      weight: callable,
      isOutOfMemory: callable,
      undo: callable,
      onResize: callable,
      growAfter: whole(1),
      memory: callable,
    },
  );
  const isOutOfMemory = options.isOutOfMemory ?? isOutOfMemoryError;
  const size = createStepSize({
    first: options.microbatch ?? Number.POSITIVE_INFINITY,
    growAfter: options.growAfter ?? cleanStepsToGrow,
    memory: options.memory,
  });

  async function step(batch: readonly S[]): Promise<StepResult<R>> {
    const weights = options.weight === undefined ? undefined : batch.map(options.weight);
    const whole = weights === undefined ? batch.length : sum(weights);
    const parts: { value: R; share: number; samples: number }[] = [];
    let retries = 0;
    let retry = 0;
    for (let offset = 0; offset < batch.length; ) {
      const samples = batch.slice(offset, offset + evenPart(batch.length - offset, size.now));
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
        const smaller = size.failed(samples.length);
        options.onResize?.(smaller, error);
      }
    }
    if (retries === 0 && parts.length > 0) growBack(batch.length, parts);
    return { parts, retries };
  }

  function growBack(batch: number, parts: readonly { readonly samples: number }[]): void {
    const grown = size.wentWell(batch, Math.max(...parts.map(({ samples }) => samples)));
    if (grown !== undefined) options.onResize?.(grown, undefined);
  }

  return Object.assign(step, { microbatch: () => size.now });
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}
