import type { Risk } from '../types.js';
import table from './probability-table.json' with { type: 'json' };

/** How likely it is that the limit is reached within a time, if nothing is changed: 0 to 1. */
export interface Probability {
  readonly within15s: number;
  readonly within60s: number;
  readonly within5min: number;
}

/** What a wrong answer costs; only the ratio of the two counts. */
export interface ForecastCosts {
  /** A run that ended without an alarm. */
  readonly missedEndCost: number;
  /** An alarm in a run that would have gone on. */
  readonly falseAlarmCost: number;
}

export const defaultCosts: ForecastCosts = { missedEndCost: 2, falseAlarmCost: 1 };

export const certain: Probability = { within15s: 1, within60s: 1, within5min: 1 };
export const impossible: Probability = { within15s: 0, within60s: 0, within5min: 0 };

/** By these the time of a pattern is multiplied. */
export interface TimeFactors {
  readonly low: number;
  readonly middle: number;
  readonly high: number;
}

/** A node is three numbers: the feature, its threshold, and where the branch above it begins. */
const nodeLength = 3;
/** In the place of a feature: the node is a leaf, with its value beside it. */
const leaf = -1;

function valueOf(tree: readonly number[], features: Float64Array): number {
  let at = 0;
  for (;;) {
    const feature = tree[at] ?? leaf;
    const threshold = tree[at + 1] ?? 0;
    if (feature === leaf) return threshold;
    at = (features[feature] ?? 0) <= threshold ? at + nodeLength : (tree[at + 2] ?? at);
  }
}

/** The trees of one answer. */
interface Forest {
  readonly base: number;
  readonly trees: readonly (readonly number[])[];
}

function scoreOf({ base, trees }: Forest, features: Float64Array): number {
  let score = base;
  for (const tree of trees) score += valueOf(tree, features);
  return score;
}

function within(place: number, features: Float64Array): number {
  const forest = table.horizons[place];
  return forest ? 1 / (1 + Math.exp(-scoreOf(forest, features))) : 0;
}

const rounded = (share: number): number => Math.round(share * 1000) / 1000;

/**
 * Weighs what the patterns expect by a table of small decision trees. `bench/forecast/fit.py` fits the table, on
 * programs that the benchmark leaves out. A longer time is never less likely than a shorter one.
 */
export function probabilityOf(features: Float64Array): Probability {
  const within15s = rounded(within(0, features));
  const within60s = Math.max(within15s, rounded(within(1, features)));
  const within5min = Math.max(within60s, rounded(within(2, features)));
  return { within15s, within60s, within5min };
}

/**
 * How much sooner or later than its pattern says the end comes, where it comes: a factor in the middle, and those that
 * 5 of 100 ends come before and after.
 */
export function timeFactors(features: Float64Array): TimeFactors {
  const factor = (forest: Forest): number => Math.exp(scoreOf(forest, features));
  const { low, middle, high } = table.times;
  return ordered(factor(low), factor(middle), factor(high));
}

function ordered(low: number, middle: number, high: number): TimeFactors {
  return { low: Math.min(low, middle), middle, high: Math.max(middle, high) };
}

/** What `high` and `critical` mean is a contract: out of memory within so many seconds. */
const riskWithinSeconds: readonly (readonly [Risk, number])[] = [
  ['critical', 15],
  ['high', 60],
  ['medium', 300],
  ['low', Number.POSITIVE_INFINITY],
];

/** The risk that an expected time alone would be. */
export function riskAt(etaSeconds: number): Risk {
  return riskWithinSeconds.find(([, seconds]) => etaSeconds <= seconds)?.[0] ?? 'none';
}

/**
 * The risk. An alarm is due where it costs less than to stay silent: the end is near enough that waiting for more
 * evidence may miss it. Further ahead, waiting costs little, so an alarm must be surer. Without an expected time
 * there is no alarm.
 */
export function riskOf(
  { within15s, within60s, within5min }: Probability,
  etaSeconds: number | undefined,
  { missedEndCost, falseAlarmCost }: ForecastCosts = defaultCosts,
): Risk {
  const line = falseAlarmCost / (falseAlarmCost + missedEndCost);
  const sure = 1 - line / 2;
  const byTime = etaSeconds === undefined ? 'medium' : riskAt(etaSeconds);
  if (within15s >= line || within60s >= sure || byTime === 'low') return byTime;
  if (within5min >= line) return 'medium';
  return within5min >= line / 4 || etaSeconds !== undefined ? 'low' : 'none';
}
