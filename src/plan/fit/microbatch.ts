import type { Optimizer, Precision, Workload } from '../../estimate/types.js';
import { presetFacts } from '../quantization/presets.js';
import type { EstimateBook } from './estimate-book.js';
import { fitOf, sureBytes } from './fit.js';
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

/** Returns the largest size that fits by the guide; the whole batch if the guide has no answer. */
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

/** Returns where the line from the states alone to the smallest failed batch meets the budget. */
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

/** Returns the possible parts of a batch in rising order; it stays whole if the program accepts no accumulation. */
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

const weightSize: Readonly<Record<Precision, number>> = {
  fp32: 4,
  bf16: 2,
  fp16: 2,
  'amp-bf16': 4,
  'amp-fp16': 4,
};

/** Bytes of states for each byte of weights; in 8 bits two states are half of 4 bytes. */
const statesPerWeightByte: Readonly<Record<Optimizer, number>> = {
  adamw: 2,
  'adamw-fused': 2,
  'adamw-8bit': 0.5,
  adam: 2,
  'adam-fused': 2,
  adamax: 2,
  nadam: 2,
  radam: 2,
  rmsprop: 1,
  adagrad: 1,
  adadelta: 2,
  adafactor: 0,
  sgd: 0,
  'sgd-momentum': 1,
};

/** Bytes that a parameter has as a weight, and as states of the optimizer. */
export function parameterBytes(
  precision: Precision,
  optimizer: Optimizer,
): { readonly weight: number; readonly states: number } {
  const weight = weightSize[precision];
  return { weight, states: weight * statesPerWeightByte[optimizer] };
}

/**
 * Returns the bytes of a configuration on one GPU for any batch: weights, gradients and states of
 * the optimizer. It never overstates, so a configuration above the budget need not be estimated.
 *
 * @example
 * leastStateBytes(configuration, facts, 'train'); // 4 x 2 bytes a parameter, all in bf16
 */
function leastStateBytes(
  configuration: Configuration,
  facts: PlanFacts,
  mode: Workload['mode'],
): number {
  const { parameters = 0, gpus } = facts;
  const { quantization, zero } = configuration;
  // Layers may wait on the host.
  if (configuration.offload === 'weights') return 0;
  const preset = quantization === undefined ? undefined : presetFacts[quantization];
  const weights = parameters * (preset?.bytesPerParameter ?? weightSize[configuration.precision]);
  const keptWeights = zero === 3 ? weights / gpus : weights;
  if (mode === 'infer' || configuration.loraRank !== undefined) return keptWeights;
  const states = weights * statesPerWeightByte[configuration.optimizer];
  const keptStates = configuration.offload === 'optimizer' ? 0 : zero >= 1 ? states / gpus : states;
  return keptWeights + keptStates + (zero >= 2 ? weights / gpus : weights);
}
