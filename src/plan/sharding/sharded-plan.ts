import type { Estimate } from '../../estimate/types.js';
import { byWorth, costOf, optionOf } from '../fit/options.js';
import type { Plan, PlanFacts, PlanOption } from '../fit/types.js';
import { configurationOf, type ShardingOption, type TracedSharding } from './sharding-option.js';

/**
 * The plan whose settings are those of the method that was chosen, with the others that were traced beside
 * it. Where nothing fits, that of the last; undefined where that was not traced.
 *
 * @example
 * planOfSharding(await chooseSharding(request, judge), facts)?.settings.zero; // 3 with fsdp2
 */
export function planOfSharding(
  { chosen, tried, estimate }: TracedSharding,
  facts: PlanFacts,
): Plan | undefined {
  const taken = chosen ?? tried.at(-1);
  if (taken === undefined || estimate === undefined) return undefined;
  const mode = 'train';
  const plain = { ...configurationOf(taken), checkpointing: false, zero: 0 } as const;
  const unit = costOf(plain, taken.batch * taken.accumulation, 1, { mode, facts, unit: 1 });
  const shown = (option: ShardingOption, peak: Estimate['peak']) => {
    const needs = { estimate: { ...estimate, peak }, hostBytes: 0 };
    const { batch, accumulation, fit } = option;
    const configuration = configurationOf(option);
    const { estimate: _, ...one } = optionOf(
      { configuration, batch, accumulation, needs },
      { mode, facts, unit },
    );
    return { ...one, fits: fit !== 'no', surely: fit === 'surely' };
  };
  const { method: _, peak: _peak, ...answer } = shown(taken, estimate.peak);
  const others = tried.flatMap((option): PlanOption[] =>
    option === taken || option.peak === undefined ? [] : [shown(option, option.peak)],
  );
  return { ...answer, estimate, alternatives: others.toSorted(byWorth), notes: [] };
}
