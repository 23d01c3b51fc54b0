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

export const defaultCosts: ForecastCosts = { missedEndCost: 9, falseAlarmCost: 1 };

export const certain: Probability = { within15s: 1, within60s: 1, within5min: 1 };

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

/** Whether to stay silent would cost more, on average, than an alarm that is false. */
export function isWorthAnAlarm(
  { within60s, within5min }: Probability,
  etaSeconds: number,
  { missedEndCost, falseAlarmCost }: ForecastCosts,
): boolean {
  const share = etaSeconds <= 60 ? within60s : within5min;
  return share >= falseAlarmCost / (falseAlarmCost + missedEndCost);
}
