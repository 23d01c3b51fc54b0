import {
  fitMemory,
  fittingBatch,
  type Observation,
  smallerMicrobatch,
} from '../../batches/sizes.js';
import { defaultLoadLine } from '../../device/load-line.js';
import { isKnown, type Known } from '../../units/known.js';
import type { Rung } from '../types.js';

/** Changes that a program can make while it runs, by the hooks that it declared to the SDK. */
export const hooks = ['microbatch', 'checkpointing', 'precision', 'offload', 'checkpoint'] as const;
export type Hook = (typeof hooks)[number];

/** An out-of-memory inside a program that can recover by itself. */
export interface StepFailure {
  readonly microbatch: number;
  readonly askedBytes: Known<number>;
  readonly peakBytes: Known<number>;
  readonly limitBytes: Known<number>;
  readonly baseBytes: Known<number>;
  /** Bytes that the allocator holds and no tensor uses. */
  readonly cachedBytes: Known<number>;
  readonly hooks: ReadonlySet<Hook>;
  /** Rungs that this program has climbed for good. */
  readonly climbed: ReadonlySet<Rung>;
  /** How often this size has failed in this batch, this failure among them. */
  readonly attempt: number;
  /** Whether memory ran out in this batch before: caches are given back after each failure. */
  readonly gaveBackCache: boolean;
  /** Whether other processes fill the device. */
  readonly othersHold: boolean;
  readonly observations: readonly Observation[];
}

export interface StepDecision {
  /** `wait`: the same again, after some time for other processes to leave. */
  readonly action: 'retry' | 'wait' | 'raise';
  readonly microbatch: number;
  readonly rung: Rung | undefined;
  readonly why: string;
}

/** Rungs that are climbed once, each with the hook that makes it possible. */
const onceOnly: readonly (readonly [Rung, Hook, string])[] = [
  ['checkpointing', 'checkpointing', 'activations are recomputed instead of kept'],
  ['lower-precision', 'precision', 'activations in half the bytes'],
  ['cpu-offload', 'offload', 'what is not needed at the moment goes to the host'],
];

/**
 * Cached memory in pieces is worth another try of the same size only where it is this share of the
 * limit: less is usual at the end of a pass, and the same pass would end the same way.
 */
const fragmentedShare = 0.2;

/** Decides the next action of a program after an out-of-memory inside a step. */
export function decideStep(failure: StepFailure): StepDecision {
  const { microbatch, hooks: declared } = failure;
  const why = whyTheSameAgain(failure);
  if (why !== undefined) return { action: 'retry', microbatch, rung: 'give-back-cache', why };
  const smaller = declared.has('microbatch')
    ? smallerMicrobatch({ ...failure, earlier: failure.observations })
    : undefined;
  if (smaller !== undefined) {
    return {
      action: 'retry',
      microbatch: smaller.most,
      rung: 'smaller-microbatch',
      why: `${smaller.why}; now ${smaller.most}.`,
    };
  }
  if (failure.othersHold) {
    const waits = 'Other processes hold the device: it waits for them to leave.';
    return { action: 'wait', microbatch, rung: 'give-back-cache', why: waits };
  }
  for (const [rung, hook, what] of onceOnly) {
    if (!declared.has(hook) || failure.climbed.has(rung)) continue;
    return { action: 'retry', microbatch, rung, why: `The microbatch cannot be smaller: ${what}.` };
  }
  const end = 'Nothing is left that this program could do within the step.';
  return { action: 'raise', microbatch, rung: undefined, why: end };
}

/** Whether the size that failed should be tried again once caches were given back, and why. */
function whyTheSameAgain(failure: StepFailure): string | undefined {
  const { microbatch, attempt, gaveBackCache, othersHold } = failure;
  const isFirst = attempt <= 1;
  if (isFirst && !othersHold && didFit(failure)) {
    return `${microbatch} fitted before: cached memory is given back first.`;
  }
  if (isFirst && microbatch <= 1)
    return 'One sample did not fit: cached memory is given back first.';
  if (!gaveBackCache && !othersHold && cacheIsEnough(failure)) {
    return 'The allocator holds enough in pieces that nothing uses: they are given back first.';
  }
  return undefined;
}

function didFit({ microbatch, observations }: StepFailure): boolean {
  return observations.some(({ batch, isAtLeast }) => batch === microbatch && !isAtLeast);
}

/** An emptied cache cannot help if the measured line says that this size does not fit. */
function cacheIsEnough(failure: StepFailure): boolean {
  const { cachedBytes, askedBytes, limitBytes, baseBytes, observations, microbatch } = failure;
  if (!isKnown(cachedBytes) || !isKnown(askedBytes)) return false;
  if (askedBytes <= 0 || cachedBytes < askedBytes) return false;
  if (isKnown(limitBytes) && cachedBytes < limitBytes * fragmentedShare) return false;
  const clean = observations.filter(({ isAtLeast }) => !isAtLeast);
  const line = fitMemory(clean, isKnown(baseBytes) ? baseBytes : undefined);
  if (line === undefined || !isKnown(limitBytes)) return true;
  return fittingBatch(line, limitBytes * defaultLoadLine) >= microbatch;
}
