import type { EstimateBook } from './estimate-book.js';
import { type EvaluatedConfiguration, optionOf, type Scale } from './options.js';
import type { Configuration, PlanOption } from './types.js';

/** How many configurations are estimated only to be shown beside the chosen one; each may take seconds. */
const maxJudged = 3;
/** As many as a person reads. */
const maxShown = 12;

/**
 * What else there is: all that was considered, and the configurations that differ least from the chosen one,
 * with the batch it has.
 */
export async function otherOptions(
  chosen: EvaluatedConfiguration,
  considered: readonly EvaluatedConfiguration[],
  configurations: readonly Configuration[],
  book: EstimateBook,
  scale: Scale,
): Promise<PlanOption[]> {
  const others = considered.filter(({ configuration }) => configuration !== chosen.configuration);
  const seen = new Set(considered.map(({ configuration }) => configuration)).add(
    chosen.configuration,
  );
  const near = configurations
    .filter((configuration) => !seen.has(configuration))
    .toSorted(
      (one, other) =>
        difference(one, chosen.configuration) - difference(other, chosen.configuration),
    );
  let judged = 0;
  for (const configuration of near) {
    if (others.length >= maxShown) break;
    const { batch, accumulation } = chosen;
    let needs = await book.roughly(configuration, batch);
    if (
      needs === undefined &&
      judged < maxJudged &&
      difference(configuration, chosen.configuration) === 1
    ) {
      judged += 1;
      needs = await book.attempt(configuration, batch);
    }
    // With room for all layers it is a slower name for the same thing.
    const idle = configuration.offload === 'weights' && needs?.hostBytes === 0;
    if (needs && !idle) others.push({ configuration, batch, accumulation, needs });
  }
  return others.map((evaluated) => {
    const { estimate: _, ...option } = optionOf(evaluated, scale);
    return option;
  });
}

/** How many settings differ; adapters come with their own precision and optimizer. */
function difference(one: Configuration, other: Configuration): number {
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
