import type { Parallel } from '../../estimate/parallel.js';
import type { Estimate, Precision, Workload } from '../../estimate/types.js';
import { fitOf, sureBytes } from '../fit/fit.js';
import { largestBatch } from '../fit/largest-batch.js';
import { divisorsOf, parameterBytes } from '../fit/microbatch.js';
import { relativeCost } from '../fit/relative-cost.js';
import {
  configurationOf,
  type ShardingOption,
  type ShardingRequest,
  type TracedSharding,
} from './sharding-option.js';

/** Counts of GPUs that are tried where none was named. */
const gpuCounts = [2, 4, 8, 16, 32, 64, 128, 256, 512] as const;
const maxGpus = 512;

/**
 * The fastest method to share a training out that fits each GPU. Where the whole batch does not fit at
 * once, it is split into equal passes. What is slower with its whole batch than a method that surely fits
 * is not looked at.
 *
 * @example
 * const { chosen } = await chooseSharding({ ...request, gpus: 8, checkpointing: 'never' }, judge);
 * chosen?.parallel.way; // 'fsdp2'
 */
export async function chooseSharding(
  request: ShardingRequest,
  estimate: Estimator,
): Promise<TracedSharding> {
  const found: Evaluated[] = [];
  let best: Evaluated | undefined;
  for (const candidate of candidatesOf(request.checkpointing)) {
    const whole = costOf(optionOf(candidate, batchOfRank(request), request), request);
    if (best && whole >= costOf(best.option, request)) continue;
    const one = await largestPart(candidate, request, estimate);
    found.push(one);
    if (one.option.fit !== 'surely') continue;
    if (!best || costOf(one.option, request) < costOf(best.option, request)) best = one;
  }
  const chosen = best ?? found.find(({ option }) => option.fit === 'tightly');
  const answer = chosen && request.grows ? await grown(chosen, request, estimate) : chosen;
  const tried = found.map((one) => (one === chosen ? (answer ?? one) : one).option);
  const { estimate: behind } = answer ?? found.at(-1) ?? {};
  return {
    ...(answer && { chosen: answer.option }),
    tried,
    ...(behind && { estimate: behind }),
  };
}

/**
 * How many GPUs a training needs, and how they then share it: the least of `gpuCounts` on which the
 * method that saves the most fits, with as many passes as it takes. Where the most of them are not
 * enough, that method on them.
 */
export async function neededGpus(
  request: Omit<ShardingRequest, 'gpus'>,
  estimate: Estimator,
): Promise<{ readonly gpus: number; readonly sharding: TracedSharding }> {
  const saving = request.checkpointing === 'never' ? sharded : recomputed(sharded);
  const on = async (gpus: number) => {
    const counted = { ...request, gpus };
    const least = partsOfRank(counted).at(-1) ?? 1;
    return (await evaluated(saving, least, counted, estimate)).option;
  };
  const last = await on(maxGpus);
  if (last.fit !== 'surely') return { gpus: maxGpus, sharding: { tried: [last] } };
  // More GPUs never need more each, so the counts are halved: each takes a trace.
  let [low, high] = [0, gpuCounts.length - 1];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const { fit } = await on(gpuCounts[middle] ?? maxGpus);
    if (fit === 'surely') high = middle;
    else low = middle + 1;
  }
  const gpus = gpuCounts[high] ?? maxGpus;
  return { gpus, sharding: await chooseSharding({ ...request, gpus }, estimate) };
}

/** Returns the samples of a rank in one pass, the largest first: equal parts, so that the effective batch stays. */
function partsOfRank(request: ShardingRequest): readonly [number, ...number[]] {
  const whole = batchOfRank(request);
  return [whole, ...divisorsOf(whole).toReversed().slice(1)];
}

/** The method with the largest part of its batch that surely fits; with the smallest where none fits. */
async function largestPart(
  candidate: Candidate,
  request: ShardingRequest,
  estimate: Estimator,
): Promise<Evaluated> {
  const [whole, ...parts] = partsOfRank(request);
  const first = await evaluated(candidate, whole, request, estimate);
  const least = parts.at(-1);
  if (first.option.fit === 'surely' || first.estimate === undefined || least === undefined)
    return first;
  const last = await evaluated(candidate, least, request, estimate);
  if (last.option.fit !== 'surely') return first.option.fit === 'tightly' ? first : last;
  // What is needed is nearly a line over the samples: from where it meets the card on, size by size.
  const [low, high] = [last, first].map((one) => (one.estimate ? sureBytes(one.estimate) : 0));
  const slope = ((high ?? 0) - (low ?? 0)) / (whole - least);
  const room = least + (request.capacityBytes - (low ?? 0)) / slope;
  const between = parts.slice(0, -1);
  const guess = between.findIndex((part) => part <= room);
  const smaller = guess === -1 ? [] : between.slice(guess);
  const larger = between.slice(0, guess === -1 ? between.length : guess).toReversed();
  const of = (part: number) => evaluated(candidate, part, request, estimate);
  for (const [passed, part] of smaller.entries()) {
    const one = await of(part);
    if (one.option.fit !== 'surely') continue;
    // Where the guess fits the line may be too steep; where it did not, nothing larger does.
    return passed === 0 ? largestOf(one, larger, of) : one;
  }
  return guess === -1 ? largestOf(last, larger, of) : last;
}

/** The last of some sizes, in rising order, that still fits. */
async function largestOf(
  fits: Evaluated,
  sizes: readonly number[],
  of: (part: number) => Promise<Evaluated>,
): Promise<Evaluated> {
  let found = fits;
  for (const size of sizes) {
    const one = await of(size);
    if (one.option.fit !== 'surely') break;
    found = one;
  }
  return found;
}

/** The same with the largest batch that surely fits in one pass. */
async function grown(
  chosen: Evaluated,
  request: ShardingRequest,
  estimate: Estimator,
): Promise<Evaluated> {
  const { option } = chosen;
  if (option.fit !== 'surely' || option.accumulation > 1) return chosen;
  const candidate = candidatesOf(request.checkpointing).find(
    ({ parallel, checkpointing }) =>
      parallel.way === option.parallel.way &&
      parallel.reshard === option.parallel.reshard &&
      checkpointing === option.checkpointing,
  );
  if (candidate === undefined) return chosen;
  const known = new Map([[option.batch, chosen]]);
  const of = async (batch: number) => {
    const one =
      known.get(batch) ??
      (await evaluated(
        candidate,
        batch,
        { ...request, workload: { ...request.workload, batch: batch * request.gpus } },
        estimate,
      ));
    known.set(batch, one);
    return one;
  };
  const { batch } = await largestBatch({
    bytesOf: async (size) => {
      const found = (await of(size)).estimate;
      return found === undefined ? Number.POSITIVE_INFINITY : sureBytes(found);
    },
    budgetBytes: request.capacityBytes,
    guess: 2 * option.batch,
  });
  return batch > option.batch ? of(batch) : chosen;
}

/** By the model of time that orders the settings of one GPU. */
function costOf(
  option: Omit<ShardingOption, 'fit'>,
  { workload, tokensPerSample }: ShardingRequest,
): number {
  const { batch, accumulation, parallel } = option;
  return relativeCost(configurationOf(option), {
    mode: workload.mode,
    batch,
    accumulation,
    gpus: parallel.gpus,
    tokensPerSample,
  });
}

type Estimator = (workload: Workload) => Promise<Estimate>;
/** A method with what it needs, where it was traced. */
interface Evaluated {
  readonly option: ShardingOption;
  readonly estimate?: Estimate;
}
/** Bytes of one parameter. */
interface ParameterBytes {
  readonly weight: number;
  readonly states: number;
  readonly gathered: number;
}
interface Candidate {
  readonly parallel: Pick<Parallel, 'way' | 'reshard'>;
  readonly checkpointing: boolean;
  /** The least that a parameter takes of one rank. */
  readonly least: (bytes: ParameterBytes, gpus: number) => number;
  readonly givesUp: string;
}

/** Each keeps its weights, their gradients, and a copy of these to exchange them. */
const copied: Candidate = {
  parallel: { way: 'ddp' },
  checkpointing: false,
  least: ({ weight, states }) => 3 * weight + states,
  givesUp: 'nothing: every GPU holds the whole model',
};
const kept: Candidate = {
  parallel: { way: 'fsdp2', reshard: false },
  checkpointing: false,
  least: ({ weight, states, gathered }, gpus) => (weight + states) / gpus + gathered,
  givesUp: 'parameters are gathered once a pass',
};
const sharded: Candidate = {
  parallel: { way: 'fsdp2' },
  checkpointing: false,
  least: ({ weight, states }, gpus) => (weight + states) / gpus,
  givesUp: 'parameters are gathered twice a pass',
};

function recomputed(candidate: Candidate): Candidate {
  const first = candidate === copied ? '' : `${candidate.givesUp}, and `;
  return { ...candidate, checkpointing: true, givesUp: `${first}forward is computed twice` };
}

/** The fastest first; the last saves the most. */
function candidatesOf(checkpointing: ShardingRequest['checkpointing']): readonly Candidate[] {
  const fast = [copied, kept, sharded];
  if (checkpointing === 'always') return fast.map(recomputed);
  return checkpointing === 'never' ? fast : [...fast, recomputed(sharded)];
}

/** Returns the samples of a rank before each optimizer step. */
function batchOfRank({ workload, gpus }: Pick<ShardingRequest, 'workload' | 'gpus'>): number {
  return Math.max(1, Math.ceil(workload.batch / gpus));
}

/** Returns the option of a method with so many samples in each pass, without its need. */
function optionOf(
  candidate: Candidate,
  batch: number,
  request: ShardingRequest,
): Omit<ShardingOption, 'fit'> {
  const { workload, gpus } = request;
  const { checkpointing, givesUp } = candidate;
  const { precision, optimizer } = workload;
  const parallel: Parallel = {
    ...candidate.parallel,
    ...precisionOf(candidate, precision).parallel,
    gpus,
  };
  const accumulation = batchOfRank(request) / batch;
  return { parallel, precision, optimizer, checkpointing, batch, accumulation, givesUp };
}

/** Traces a method, unless weights and states alone are more than a card has. */
async function evaluated(
  candidate: Candidate,
  batch: number,
  request: ShardingRequest,
  estimate: Estimator,
): Promise<Evaluated> {
  const { workload, parameters = 0, capacityBytes, gpus } = request;
  const { precision, optimizer } = workload;
  const option = optionOf(candidate, batch, request);
  const bytes = parameterBytes(precision, optimizer);
  const gathered = precision === 'fp32' ? bytes.weight : 2;
  if (parameters * candidate.least({ ...bytes, gathered }, gpus) > capacityBytes) {
    return { option: { ...option, fit: 'no' } };
  }
  const found = await estimate({
    ...workload,
    batch,
    precision: precisionOf(candidate, precision).precision,
    checkpointing: candidate.checkpointing,
    parallel: option.parallel,
    // Gradients that wait for a second pass are there in each later one, too.
    ...(option.accumulation > 1 && { accumulation: 2 }),
  });
  return {
    option: { ...option, peak: found.peak, fit: fitOf(found, capacityBytes) },
    estimate: found,
  };
}

/** FSDP has a mixed precision of its own: what it gathers is in 16 bits, the shards are not. */
function precisionOf(
  { parallel: { way } }: Candidate,
  precision: Precision,
): { readonly precision: Precision; readonly parallel?: Partial<Parallel> } {
  if (way === 'ddp' || !precision.startsWith('amp-')) return { precision };
  const gatherPrecision = precision === 'amp-fp16' ? 'fp16' : 'bf16';
  return { precision: 'fp32', parallel: { gatherPrecision, reducePrecision: 'fp32' } };
}
