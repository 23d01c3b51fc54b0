import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { inThisThread } from '../estimate-work.js';
import { type EstimateThreads, estimateThreads } from './estimate-threads.js';

/** Beside the command in the build; the sources, which tests run, have no program for a thread. */
const program = new URL('./estimate-thread.js', import.meta.url);
/** As many as a server answers at once; more would only share the same cores. */
const maxThreads = 4;

/**
 * Threads for estimates, one core left for the process that started them; with `allCores` none, for
 * those that only wait for the answer.
 *
 * @example
 * const { work, close } = openEstimateWork();
 */
export function openEstimateWork({ allCores = false } = {}): EstimateThreads {
  if (!existsSync(program)) return { work: inThisThread, close: () => Promise.resolve() };
  const cores = availableParallelism();
  const most = Math.max(1, Math.min(maxThreads, cores - 1));
  return estimateThreads({ program, most, inPairs: allCores && cores > 1 });
}
