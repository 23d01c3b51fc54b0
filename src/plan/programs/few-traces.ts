/** A program whose line does not lead there by then is not one. */
const maxTraces = 12;
/** How far a guess may go beyond what was tried: a program holds its batches in the host's memory. */
const farthest = 8;
/** So many larger batches that take nothing more: the program does not have as many samples. */
const maxFlat = 3;

/** The batches that may be chosen. */
export interface BatchChoices {
  readonly first: number;
  /** The largest of them that is no larger; 0 where there is none. */
  readonly atMost: (batch: number) => number;
  /** The next larger one; Infinity where there is none. */
  readonly after: (batch: number) => number;
}

export interface TraceSearch {
  /** The bytes that surely are enough; undefined where the program itself fails with such a batch. */
  readonly bytesOf: (batch: number) => Promise<number | undefined>;
  /** Whether the program asked for the very same with two batches that were traced. */
  readonly alike?: ((one: number, other: number) => boolean) | undefined;
  readonly budgetBytes: number;
  readonly choices: BatchChoices;
}

interface Tried {
  readonly batch: number;
  readonly bytes: number;
}

export interface FoundBatch {
  /** 0 where none fits. */
  readonly batch: number;
  /** Larger batches took no more memory. */
  readonly flat: boolean;
  /** A larger batch with which the program asked for the very same: there is nothing more to batch. */
  readonly sameAs?: number;
}

/**
 * The largest batch that fits, in few traces: two, then one where their line meets the budget. The
 * answer was always traced itself; that the next one is too large may be left to the line.
 *
 * @example
 * await batchByTraces({ bytesOf: async (batch) => 10 + 3 * batch, budgetBytes: 99, choices });
 * // { batch: 29, flat: false }
 */
export async function batchByTraces(search: TraceSearch): Promise<FoundBatch> {
  const { bytesOf, budgetBytes, choices, alike } = search;
  const tried: Tried[] = [];
  let [fits, fails, flat] = [0, Number.POSITIVE_INFINITY, 0];
  let batch = choices.first;
  for (let count = 0; count < maxTraces; count += 1) {
    const bytes = await bytesOf(batch);
    if (bytes !== undefined && bytes <= budgetBytes) fits = Math.max(fits, batch);
    else fails = Math.min(fails, batch);
    const same = tried.find((one) => one.batch < batch && alike?.(one.batch, batch));
    if (same !== undefined && fits === batch) {
      return { batch: same.batch, flat: false, sameAs: batch };
    }
    if (bytes !== undefined) {
      flat = tried.some((one) => one.batch < batch && one.bytes >= bytes) ? flat + 1 : 0;
      tried.push({ batch, bytes });
    }
    const next = choices.after(fits);
    if (next >= fails || flat === maxFlat) break;
    const slope = slopeNear(tried, budgetBytes);
    const here = tried.find((one) => one.batch === fits);
    if (here && slope > 0 && here.bytes + slope * (next - fits) > budgetBytes) break;
    const wanted = guess(tried, slope, search);
    // A line that leads beyond what failed is none: the middle of what is left.
    batch = Math.max(next, choices.atMost(wanted < fails ? wanted : (fits + fails) / 2));
  }
  return { batch: fits, flat: flat === maxFlat };
}

function guess(
  tried: readonly Tried[],
  slope: number,
  { budgetBytes, choices }: TraceSearch,
): number {
  const [near] = byDistance(tried, budgetBytes);
  if (near === undefined) return choices.first / 2;
  const largest = Math.max(...tried.map(({ batch }) => batch));
  if (slope > 0)
    return Math.min(largest * farthest, near.batch + (budgetBytes - near.bytes) / slope);
  // One trace, or a batch that its states hide: a step that a line can be drawn through.
  return near.bytes <= budgetBytes ? largest * 4 : near.batch / 4;
}

/** Bytes that one more sample takes, by the two tries nearest to the budget; 0 where unknown. */
function slopeNear(tried: readonly Tried[], budgetBytes: number): number {
  const [near, other] = byDistance(tried, budgetBytes);
  if (near === undefined || other === undefined) return 0;
  return Math.max(0, (near.bytes - other.bytes) / (near.batch - other.batch));
}

function byDistance(tried: readonly Tried[], budgetBytes: number): readonly Tried[] {
  const distance = ({ bytes }: Tried) => Math.abs(bytes - budgetBytes);
  return tried.toReversed().toSorted((one, other) => distance(one) - distance(other));
}
