import type { EstimateBook } from './estimate-book.js';
import { optionOf, type Scale, type Weighed } from './options.js';
import type { PlanOption, Way } from './types.js';

/** How many ways are estimated only to be shown beside the chosen one; each may take seconds. */
const mostJudged = 3;
/** As many as a person reads. */
const mostShown = 12;

/**
 * What else there is: all that was considered, and the ways that differ least from the chosen one,
 * with the batch it has.
 */
export async function otherOptions(
  chosen: Weighed,
  considered: readonly Weighed[],
  ways: readonly Way[],
  book: EstimateBook,
  scale: Scale,
): Promise<PlanOption[]> {
  const others = considered.filter(({ way }) => way !== chosen.way);
  const seen = new Set(considered.map(({ way }) => way)).add(chosen.way);
  const near = ways
    .filter((way) => !seen.has(way))
    .toSorted((one, other) => difference(one, chosen.way) - difference(other, chosen.way));
  let judged = 0;
  for (const way of near) {
    if (others.length >= mostShown) break;
    const { batch, accumulation } = chosen;
    let needs = await book.roughly(way, batch);
    if (needs === undefined && judged < mostJudged && difference(way, chosen.way) === 1) {
      judged += 1;
      needs = await book.attempt(way, batch);
    }
    // With room for all layers it is a slower name for the same thing.
    const idle = way.offload === 'weights' && needs?.hostBytes === 0;
    if (needs && !idle) others.push({ way, batch, accumulation, needs });
  }
  return others.map((weighed) => {
    const { estimate: _, ...option } = optionOf(weighed, scale);
    return option;
  });
}

/** How many settings differ; adapters come with their own precision and optimizer. */
function difference(one: Way, other: Way): number {
  const pairs =
    one.loraRank === other.loraRank
      ? [
          [one.precision, other.precision],
          [one.optimizer, other.optimizer],
          [one.quantization, other.quantization],
        ]
      : [[one.loraRank, other.loraRank]];
  return [
    ...pairs,
    [one.checkpointing, other.checkpointing],
    [one.offload, other.offload],
    [one.zero, other.zero],
  ].filter(([a, b]) => a !== b).length;
}
