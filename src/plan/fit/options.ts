import type { Estimate, Workload } from '../../estimate/types.js';
import { fitOf } from './fit.js';
import { relativeCost } from './relative-cost.js';
import type { OnOneGpu } from './shared-out.js';
import {
  concessions,
  type PlanFacts,
  type PlanOption,
  type PlanSettings,
  type Way,
} from './types.js';

/** A way with a batch, and what one GPU needs for it. */
export interface Weighed {
  readonly way: Way;
  readonly batch: number;
  readonly accumulation: number;
  readonly needs: OnOneGpu;
}

/** Of a way with a batch: how it compares. */
export interface Scale {
  readonly mode: Workload['mode'];
  readonly facts: PlanFacts;
  /** The cost that counts as 1. */
  readonly unit: number;
}

export function costOf(
  way: Way,
  batch: number,
  accumulation: number,
  { mode, facts, unit }: Scale,
): number {
  const { tokensPerSample, gpus } = facts;
  return relativeCost(way, { mode, batch, accumulation, gpus, tokensPerSample }) / unit;
}

/** What a person is told of it. */
export function optionOf(weighed: Weighed, scale: Scale): PlanOption & { estimate: Estimate } {
  const { way, batch, accumulation, needs } = weighed;
  const { estimate, hostBytes } = needs;
  const fit = fitOf(estimate, scale.facts.capacityBytes);
  return {
    settings: settingsOf(weighed, scale),
    fits: fit !== 'no',
    surely: fit === 'surely',
    method: estimate.method,
    peak: estimate.peak,
    hostBytes,
    relativeCost: Number(costOf(way, batch, accumulation, scale).toFixed(3)),
    concession: way.concession,
    givesUp: way.givesUp,
    estimate,
  };
}

/** What fits first; of that the least given up, then the fastest. */
export function byWorth(one: PlanOption, other: PlanOption): number {
  return (
    Number(other.fits) - Number(one.fits) ||
    concessions.indexOf(one.concession) - concessions.indexOf(other.concession) ||
    one.relativeCost - other.relativeCost
  );
}

function settingsOf({ way, batch, accumulation }: Weighed, { mode, facts }: Scale): PlanSettings {
  return {
    batch,
    accumulation,
    checkpointing: way.checkpointing,
    precision: way.precision,
    quantization: way.quantization ?? 'none',
    offload: way.offload,
    optimizer: mode === 'infer' ? 'none' : way.optimizer,
    lora: way.loraRank ?? 'none',
    gpus: facts.gpus,
    zero: way.zero,
  };
}
