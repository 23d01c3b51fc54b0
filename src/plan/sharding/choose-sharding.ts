import { sureBytes } from '../fit/fit.js';
import { largestBatch } from '../fit/largest-batch.js';
import { divisorsOf } from '../fit/microbatch.js';
import { relativeCost } from '../fit/relative-cost.js';
import {
  batchOfRank,
  type Candidate,
  candidatesOf,
  type Estimator,
  type Evaluated,
  evaluated,
  optionOf,
  recomputed,
  sharded,
} from './methods.js';
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

/** What a rank may take in one pass, the largest first: equal parts, so that the effective batch is kept. */
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
