import type { EstimateBook } from './estimate-book.js';
import { fitOf, sureBytes } from './fit.js';
import { leastStateBytes } from './least-states.js';
import type { EvaluatedConfiguration } from './options.js';
import type { Configuration, PlanFacts, PlanWishes } from './types.js';

/**
 * The largest part of a batch that surely fits, with as many passes as it then takes. The parts are
 * divisors of the batch, so that the effective batch stays exactly what it was. Where none surely
 * fits it is the smallest that was estimated; undefined where nothing was.
 */
export async function largestMicrobatch(
  configuration: Configuration,
  effective: number,
  book: EstimateBook,
  wishes: PlanWishes,
  facts: PlanFacts,
): Promise<EvaluatedConfiguration | undefined> {
  const { capacityBytes } = facts;
  const states = leastStateBytes(configuration, facts, wishes.mode);
  if (states > capacityBytes) return undefined;
  const sizes = await withHope(partsOf(effective, wishes), configuration, book);
  let low = 0;
  let high = sizes.length - 1;
  let next = await roughIndex(sizes, configuration, book, capacityBytes);
  let best: EvaluatedConfiguration | undefined;
  let smallest: EvaluatedConfiguration | undefined;
  while (low <= high) {
    const batch = sizes[next] ?? 1;
    const needs = await book.attempt(configuration, batch);
    if (needs === undefined) return undefined;
    const evaluated = { configuration, batch, accumulation: effective / batch, needs };
    if (fitOf(needs.estimate, capacityBytes) === 'surely') {
      best = evaluated;
      low = next + 1;
    } else {
      smallest = smaller(smallest, evaluated);
      high = next - 1;
    }
    next = guessIndex(sizes, low, high, smallest, states, capacityBytes);
  }
  return best ?? smallest;
}

/** Without those that the guide knows to be far too large. */
async function withHope(
  sizes: readonly number[],
  configuration: Configuration,
  book: EstimateBook,
): Promise<number[]> {
  const left = [...sizes];
  while (left.length > 0 && (await book.hopeless(configuration, left.at(-1) ?? 1))) left.pop();
  return left;
}

/** Where the guide says that it fits; the whole batch where it says nothing. */
async function roughIndex(
  sizes: readonly number[],
  configuration: Configuration,
  book: EstimateBook,
  capacityBytes: number,
): Promise<number> {
  for (const [index, batch] of [...sizes.entries()].toReversed()) {
    const rough = await book.roughly(configuration, batch);
    if (rough === undefined) return sizes.length - 1;
    if (rough.estimate.peak.leastCapacityBytes <= capacityBytes) return index;
  }
  return 0;
}

function smaller(
  one: EvaluatedConfiguration | undefined,
  other: EvaluatedConfiguration,
): EvaluatedConfiguration {
  return one === undefined || other.batch < one.batch ? other : one;
}

/** Where the line from the states alone to the smallest batch that failed meets the budget. */
function guessIndex(
  sizes: readonly number[],
  low: number,
  high: number,
  failed: EvaluatedConfiguration | undefined,
  states: number,
  capacityBytes: number,
): number {
  // All fitted so far: the next larger one is the likeliest to be the last.
  if (failed === undefined) return low;
  const slope = (sureBytes(failed.needs.estimate) - states) / failed.batch;
  const most = (capacityBytes - states) / slope;
  const index = sizes.findLastIndex((size) => size <= most);
  return Math.min(high, Math.max(low, index));
}

/** What a batch may be split into, in rising order: it stays whole where accumulation cannot be told. */
export function partsOf(effective: number, { mayChange }: PlanWishes): number[] {
  const isWhole = mayChange !== undefined && !mayChange.includes('accumulation');
  return isWhole ? [effective] : divisorsOf(effective);
}

/** In rising order. */
export function divisorsOf(number: number): number[] {
  const small: number[] = [];
  const large: number[] = [];
  for (let divisor = 1; divisor * divisor <= number; divisor += 1) {
    if (number % divisor !== 0) continue;
    small.push(divisor);
    if (divisor * divisor !== number) large.unshift(number / divisor);
  }
  return [...small, ...large];
}
