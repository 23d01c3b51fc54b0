import type { EstimateBook } from './estimate-book.js';
import { largestBatch } from './largest-batch.js';
import type { Configuration } from './types.js';

/** The largest batch by the guide alone; undefined where it knows nothing of this configuration. */
export async function roughGuess(
  configuration: Configuration,
  book: EstimateBook,
  budgetBytes: number,
): Promise<number | undefined> {
  let known = true;
  const bytesOf = async (batch: number) => {
    const rough = await book.roughly(configuration, batch);
    if (rough === undefined) known = false;
    return rough?.estimate.peak.leastCapacityBytes ?? Number.POSITIVE_INFINITY;
  };
  await bytesOf(1);
  if (!known) return undefined;
  const { batch } = await largestBatch({ bytesOf, budgetBytes });
  return known ? Math.max(1, batch) : undefined;
}
