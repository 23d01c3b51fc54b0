import { Failure } from '../../failure.js';
import { RememberedWork } from '../../jobs/daemon/estimates/remembered-answers.js';
import type { WorkloadRequest } from '../../plan/answers/workload-request.js';
import type { Clock } from '../../time/clock.js';

/** Each is a short text and a number. */
const rememberedEstimates = 1000;
/** Different ones under way at the same time: some 20 s of work on two cores. */
const maxAtOnce = 200;

/** What a workload needs on each GPU, for one who waits so long for it. */
export type ReviewEstimate = (request: WorkloadRequest, waitSeconds: number) => Promise<number>;

/**
 * Estimates for reviews. Pods of one kind ask the same, many at a time: they share one estimate, and
 * later ones get it at once. An estimate goes on when the review that asked for it can no longer wait,
 * so that the next one of this workload finds its answer.
 *
 * @example
 * const estimate = reviewEstimates((request, signal) => bytesOf(request, signal), systemClock);
 * await estimate({ model: 'gpt2', batch: 8, seq: 1024 }, 8.5);
 */
export function reviewEstimates(
  make: (request: WorkloadRequest, signal: AbortSignal) => Promise<number>,
  clock: Clock,
): ReviewEstimate {
  const known = new RememberedWork<number>(rememberedEstimates);
  let running = 0;
  const count = async (request: WorkloadRequest, signal: AbortSignal): Promise<number> => {
    if (running >= maxAtOnce) throw tooManyEstimates();
    running += 1;
    try {
      return await make(request, signal);
    } finally {
      running -= 1;
    }
  };
  return async (request, waitSeconds) => {
    const answer = known.ask(
      {
        key: JSON.stringify(request),
        make: (signal) => count(request, signal),
        keeps: () => Promise.resolve(true),
      },
      // It does not end with the review: an estimate that nobody waits for would be given up.
      new AbortController().signal,
    );
    const answered = new AbortController();
    const late = clock.waitUntil(clock.seconds() + waitSeconds, answered.signal).then(() => {
      throw estimateNotReady();
    });
    try {
      return await Promise.race([answer, late]);
    } finally {
      answered.abort();
    }
  };
}

function estimateNotReady(): Failure {
  return new Failure({
    kind: 'interrupted',
    code: 'estimate-not-ready',
    fact: 'The estimate is not ready yet; it goes on.',
    next: 'Create the pod again in a minute.',
  });
}

function tooManyEstimates(): Failure {
  return new Failure({
    kind: 'interrupted',
    code: 'too-many-estimates',
    fact: `${maxAtOnce} other workloads are being estimated.`,
    next: 'Create the pod again in a minute.',
  });
}
