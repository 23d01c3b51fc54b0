import type { Estimate, Workload } from '../../estimate/types.js';
import { fitOf } from './fit.js';
import { relativeCost } from './relative-cost.js';
import type { OnOneGpu } from './shared-out.js';
import {
  type Configuration,
  concessions,
  type PlanFacts,
  type PlanOption,
  type PlanSettings,
} from './types.js';

/** A configuration with a batch, and what one GPU needs for it. */
export interface EvaluatedConfiguration {
  readonly configuration: Configuration;
  readonly batch: number;
  readonly accumulation: number;
  readonly needs: OnOneGpu;
}

/** Of a configuration with a batch: how it compares. */
export interface Scale {
  readonly mode: Workload['mode'];
  readonly facts: PlanFacts;
  /** The cost that counts as 1. */
  readonly unit: number;
}

export function costOf(
  configuration: Configuration,
  batch: number,
  accumulation: number,
  { mode, facts, unit }: Scale,
): number {
  const { tokensPerSample, gpus } = facts;
  return relativeCost(configuration, { mode, batch, accumulation, gpus, tokensPerSample }) / unit;
}

/** Returns the option as people see it. */
export function optionOf(
  evaluated: EvaluatedConfiguration,
  scale: Scale,
): PlanOption & { estimate: Estimate } {
  const { configuration, batch, accumulation, needs } = evaluated;
  const { estimate, hostBytes } = needs;
  const fit = fitOf(estimate, scale.facts.capacityBytes);
  return {
    settings: settingsOf(evaluated, scale),
    fits: fit !== 'no',
    surely: fit === 'surely',
    method: estimate.method,
    peak: estimate.peak,
    hostBytes,
    relativeCost: Number(costOf(configuration, batch, accumulation, scale).toFixed(3)),
    concession: configuration.concession,
    givesUp: configuration.givesUp,
    estimate,
  };
}

/** Sorts options: those that fit first, then the least concession, then the fastest. */
export function byWorth(one: PlanOption, other: PlanOption): number {
  return (
    Number(other.fits) - Number(one.fits) ||
    concessions.indexOf(one.concession) - concessions.indexOf(other.concession) ||
    one.relativeCost - other.relativeCost
  );
}

function settingsOf(
  { configuration, batch, accumulation }: EvaluatedConfiguration,
  { mode, facts }: Scale,
): PlanSettings {
  return {
    batch,
    accumulation,
    checkpointing: configuration.checkpointing,
    precision: configuration.precision,
    quantization: configuration.quantization ?? 'none',
    offload: configuration.offload,
    optimizer: mode === 'infer' ? 'none' : configuration.optimizer,
    lora: configuration.loraRank ?? 'none',
    gpus: facts.gpus,
    zero: configuration.zero,
  };
}
