import type { Estimate, Workload } from '../../estimate/types.js';
import { Failure } from '../../failure.js';
import { backwardBytes, type OnOneGpu, onOneGpu } from './shared-out.js';
import type { Configuration, PlanEstimators, PlanFacts, PlanWishes } from './types.js';

/** A rough estimate this far above the budget is believed: the judge is not asked. */
const farAbove = 1.3;
/** In a batch so many times as large activations make the peak. */
const moreSamples = 8;

/** Asks for estimates, each only once. */
export interface EstimateBook {
  /** Returns the need of one GPU. */
  of(configuration: Configuration, batch: number): Promise<OnOneGpu>;
  /** The same; undefined where this configuration, unlike others, cannot be estimated. */
  attempt(configuration: Configuration, batch: number): Promise<OnOneGpu | undefined>;
  /** The same, by the guide, or from what the judge has already said. */
  roughly(configuration: Configuration, batch: number): Promise<OnOneGpu | undefined>;
  /** Whether the guide knows that it does not come near to fitting. */
  hopeless(configuration: Configuration, batch: number): Promise<boolean>;
  /** Configurations that could not be estimated, and why. */
  readonly refusals: readonly string[];
}

export function openEstimateBook(
  { judge, guide }: PlanEstimators,
  wishes: PlanWishes,
  facts: PlanFacts,
): EstimateBook {
  const judged = new Map<string, Estimate>();
  const refused = new Set<string>();
  const guided = new Map<string, Estimate | undefined>();
  const refusals = new Set<string>();

  async function judgedBy(workload: Workload): Promise<Estimate> {
    const key = keyOf(workload);
    const known = judged.get(key) ?? (await judge(workload));
    judged.set(key, known);
    return known;
  }

  /** Estimates a configuration. The first failure is an error; later ones only remove their configuration. */
  async function attempted(workload: Workload): Promise<Estimate | undefined> {
    const key = keyOf(workload);
    if (refused.has(key)) return undefined;
    try {
      return await judgedBy(workload);
    } catch (error) {
      const isRefusal = error instanceof Failure && error.kind !== 'interrupted';
      if (!isRefusal || judged.size === 0) throw error;
      refused.add(key);
      refusals.add(error.fact);
      return undefined;
    }
  }

  async function guidedBy(workload: Workload): Promise<Estimate | undefined> {
    const key = keyOf(workload);
    if (!guided.has(key)) guided.set(key, await guide?.(workload));
    return guided.get(key);
  }

  type Ask = (workload: Workload) => Promise<Estimate | undefined>;

  async function shared(
    configuration: Configuration,
    batch: number,
    ask: Ask,
  ): Promise<OnOneGpu | undefined> {
    const estimate = await ask(workloadOf(configuration, batch, wishes));
    if (estimate === undefined) return undefined;
    if (configuration.zero < 2) return onOneGpu(estimate, configuration, facts);
    const larger = await ask(workloadOf(configuration, batch * moreSamples, wishes));
    return onOneGpu(estimate, configuration, facts, larger && backwardBytes(larger, moreSamples));
  }

  return {
    async of(configuration, batch) {
      const needs = await shared(configuration, batch, judgedBy);
      if (needs === undefined) throw new Error('the judge has no answer and no failure');
      return needs;
    },
    attempt: (configuration, batch) => shared(configuration, batch, attempted),
    roughly: (configuration, batch) =>
      shared(configuration, batch, async (one) => judged.get(keyOf(one)) ?? (await guidedBy(one))),
    async hopeless(configuration, batch) {
      const rough = await shared(configuration, batch, guidedBy);
      const least = rough?.estimate.peak.leastCapacityBytes ?? 0;
      return least > facts.capacityBytes * farAbove;
    },
    get refusals() {
      return [...refusals];
    },
  };
}

function workloadOf(configuration: Configuration, batch: number, wishes: PlanWishes): Workload {
  const { mode, sequence, image, targetSequence, keep } = wishes;
  const { precision, optimizer, checkpointing, loraRank, quantization } = configuration;
  return {
    mode,
    batch,
    ...(sequence !== undefined && { sequence }),
    ...(image !== undefined && { image }),
    ...(targetSequence !== undefined && { targetSequence }),
    ...(keep !== undefined && { keep }),
    precision,
    optimizer,
    checkpointing,
    ...(loraRank !== undefined && { loraRank }),
    ...(quantization !== undefined && {
      // Which layers wait on the host is arithmetic on all of them.
      quantization: quantization === 'int4_offload' ? 'int4_double' : quantization,
    }),
  };
}

function keyOf(workload: Workload): string {
  return JSON.stringify(workload);
}
