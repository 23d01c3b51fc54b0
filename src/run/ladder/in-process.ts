import { isKnown, type Known } from '../../units/known.js';
import type { Rung } from '../contract.js';
import type { Observation } from './fit.js';
import { smallerMicrobatch } from './smaller-microbatch.js';

/** What a program can do to itself while it runs, by the hooks that it declared to the SDK. */
export const hooks = ['microbatch', 'checkpointing', 'precision', 'offload', 'checkpoint'] as const;
export type Hook = (typeof hooks)[number];

/** An out-of-memory inside a program that can mend itself. */
export interface StepFailure {
  readonly microbatch: number;
  readonly askedBytes: Known<number>;
  readonly peakBytes: Known<number>;
  readonly limitBytes: Known<number>;
  readonly baseBytes: Known<number>;
  /** What the allocator holds and no tensor uses. */
  readonly cachedBytes: Known<number>;
  readonly hooks: ReadonlySet<Hook>;
  /** Rungs that this program has climbed for good. */
  readonly climbed: ReadonlySet<Rung>;
  /** Whether the cache was given back for this very batch already. */
  readonly gaveBackCache: boolean;
  readonly observations: readonly Observation[];
}

export interface StepDecision {
  readonly action: 'retry' | 'raise';
  readonly microbatch: number;
  readonly rung: Rung | undefined;
  readonly why: string;
}

/** Rungs that are climbed once, each with the hook that makes it possible. */
const onceOnly: readonly (readonly [Rung, Hook, string])[] = [
  ['checkpointing', 'checkpointing', 'activations are computed anew instead of kept'],
  ['lower-precision', 'precision', 'activations in half the bytes'],
  ['cpu-offload', 'offload', 'what is not needed at the moment goes to the host'],
];

/** What a program should do after an out-of-memory inside a step. */
export function decideStep(failure: StepFailure): StepDecision {
  const { microbatch, cachedBytes, askedBytes } = failure;
  const cacheHelps =
    isKnown(cachedBytes) && isKnown(askedBytes) && cachedBytes >= askedBytes && askedBytes > 0;
  if (cacheHelps && !failure.gaveBackCache) {
    const why =
      'The allocator holds enough in pieces that nothing uses: they are given back first.';
    return { action: 'retry', microbatch, rung: 'give-back-cache', why };
  }
  const smaller = failure.hooks.has('microbatch')
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
  for (const [rung, hook, what] of onceOnly) {
    if (!failure.hooks.has(hook) || failure.climbed.has(rung)) continue;
    return { action: 'retry', microbatch, rung, why: `The microbatch cannot be smaller: ${what}.` };
  }
  const why = 'Nothing is left that this program could do within the step.';
  return { action: 'raise', microbatch, rung: undefined, why };
}
