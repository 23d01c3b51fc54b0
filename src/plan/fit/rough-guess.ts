import type { EstimateBook } from './estimate-book.js';
import { largestBatch } from './largest-batch.js';
import type { Way } from './types.js';

/** The largest batch by the guide alone; undefined where it knows nothing of this way. */
export async function roughGuess(
  way: Way,
  book: EstimateBook,
  budgetBytes: number,
): Promise<number | undefined> {
  let known = true;
  const bytesOf = async (batch: number) => {
    const rough = await book.roughly(way, batch);
    if (rough === undefined) known = false;
    return rough?.estimate.peak.leastCapacityBytes ?? Number.POSITIVE_INFINITY;
  };
  await bytesOf(1);
  if (!known) return undefined;
  const { batch } = await largestBatch({ bytesOf, budgetBytes });
  return known ? Math.max(1, batch) : undefined;
}
