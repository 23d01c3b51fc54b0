import { callWording } from '../../estimate/wording.js';
import { formatBytes } from '../../units/bytes.js';
import { fixedConfiguration } from './configurations.js';
import { openEstimateBook } from './estimate-book.js';
import { largestBatch, roughGuess } from './largest-batch.js';
import { costOf, type EvaluatedConfiguration, optionOf } from './options.js';
import type { Plan, PlanEstimators, PlanFacts, PlanWishes, PlanWording } from './types.js';

/**
 * The largest batch that fits with settings as they are; what was left open is as an estimate takes
 * it. A batch that was given is where the search begins.
 *
 * @example
 * const plan = await planMaxBatch({ mode: 'train', precision: 'bf16' }, facts, { judge });
 * plan.settings.batch;
 */
export async function planMaxBatch(
  wishes: PlanWishes,
  facts: PlanFacts,
  estimators: PlanEstimators,
  wording: PlanWording = callWording,
): Promise<Plan> {
  const { mode } = wishes;
  const { capacityBytes } = facts;
  const configuration = fixedConfiguration(wishes, facts, wording);
  const book = openEstimateBook(estimators, wishes, facts);
  const tried = new Map<number, EvaluatedConfiguration>();
  const evaluate = async (batch: number): Promise<EvaluatedConfiguration> => {
    const known = tried.get(batch);
    if (known) return known;
    const evaluated = {
      configuration,
      batch,
      accumulation: 1,
      needs: await book.of(configuration, batch),
    };
    tried.set(batch, evaluated);
    return evaluated;
  };
  const guess = wishes.batch ?? (await roughGuess(configuration, book, capacityBytes));
  const { batch, tight } = await largestBatch({
    bytesOf: async (one) => (await evaluate(one)).needs.estimate.peak.leastCapacityBytes,
    budgetBytes: capacityBytes,
    guess,
  });
  const found = await evaluate(Math.max(1, batch));
  const unit = costOf(configuration, found.batch, 1, { mode, facts, unit: 1 });
  const scale = { mode, facts, unit };
  const others = [...tried.values()]
    .filter((one) => one.batch !== found.batch)
    .toSorted((one, other) => one.batch - other.batch)
    .map((evaluated) => {
      const { estimate: _, ...option } = optionOf(evaluated, scale);
      return option;
    });
  const { method: _, peak: _peak, estimate, ...answer } = optionOf(found, scale);
  const missing = estimate.peak.leastCapacityBytes - capacityBytes;
  return {
    ...answer,
    estimate,
    alternatives: others,
    notes: [
      ...(tight ? ['One sample more would not fit, and less than 1 % of the batch is spare.'] : []),
      ...(missing > 0 ? [`Not even one sample fits: ${formatBytes(missing)} are missing.`] : []),
    ],
  };
}
