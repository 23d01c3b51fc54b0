import type { Parallel } from '../../estimate/parallel.js';
import type { Estimate, Optimizer, Precision, Workload } from '../../estimate/types.js';
import { fitOf } from '../fit/fit.js';
import { parameterBytes } from '../fit/least-states.js';
import type { Fit } from '../fit/types.js';

/** One method to share a training out over GPUs, with what a rank then needs. */
export interface ShardingOption {
  readonly parallel: Parallel;
  /** `amp-` keeps weights in 32 bits and computes in 16, by autocast or by FSDP's own mixed precision. */
  readonly precision: Precision;
  readonly optimizer: Optimizer;
  readonly checkpointing: boolean;
  /** Samples of one rank in one pass. */
  readonly batch: number;
  /** Absent where weights and states alone are more than a card has: it was not traced. */
  readonly peak?: Estimate['peak'];
  readonly fit: Fit;
  readonly givesUp: string;
}

export interface Sharding {
  /** The fastest that fits; absent where none does. */
  readonly chosen?: ShardingOption;
  /** In the order of their speed, as far as they were looked at. */
  readonly tried: readonly ShardingOption[];
}

export interface ShardingRequest {
  /** What is trained; its batch is that of all ranks together, its checkpointing does not count. */
  readonly workload: Workload;
  readonly parameters?: number | undefined;
  readonly capacityBytes: number;
  readonly gpus: number;
  readonly checkpointing: 'never' | 'if-needed' | 'always';
}

type Estimator = (workload: Workload) => Promise<Estimate>;
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

/** Counts of GPUs that are tried where none was named. */
const gpuCounts = [2, 4, 8, 16, 32, 64, 128, 256, 512] as const;
const maxGpus = 512;

/**
 * The fastest method to share a training out that fits each GPU. Ends at the first that surely fits.
 *
 * @example
 * const { chosen } = await chooseSharding({ workload, capacityBytes, gpus: 8, checkpointing: 'never' }, judge);
 * chosen?.parallel.way; // 'fsdp2'
 */
export async function chooseSharding(
  request: ShardingRequest,
  estimate: Estimator,
): Promise<Sharding> {
  const tried: ShardingOption[] = [];
  for (const candidate of candidatesOf(request.checkpointing)) {
    const option = await evaluated(candidate, request, estimate);
    tried.push(option);
    if (option.fit === 'surely') return { chosen: option, tried };
  }
  const chosen = tried.find(({ fit }) => fit === 'tightly');
  return chosen === undefined ? { tried } : { chosen, tried };
}

/**
 * How many GPUs a training needs, and how they then share it: the least of `gpuCounts` on which the
 * method that saves the most fits. Where the most of them are not enough, that method on them.
 */
export async function neededGpus(
  request: Omit<ShardingRequest, 'gpus'>,
  estimate: Estimator,
): Promise<{ readonly gpus: number; readonly sharding: Sharding }> {
  const saving = request.checkpointing === 'never' ? sharded : recomputed(sharded);
  const on = (gpus: number) => evaluated(saving, { ...request, gpus }, estimate);
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

async function evaluated(
  candidate: Candidate,
  { workload, parameters = 0, capacityBytes, gpus }: ShardingRequest,
  estimate: Estimator,
): Promise<ShardingOption> {
  const { checkpointing, givesUp } = candidate;
  const { precision, optimizer } = workload;
  const inSharding = precisionOf(candidate, precision);
  const parallel: Parallel = { ...candidate.parallel, ...inSharding.parallel, gpus };
  const batch = Math.max(1, Math.ceil(workload.batch / gpus));
  const about = { parallel, precision, optimizer, checkpointing, batch, givesUp };
  const bytes = parameterBytes(precision, optimizer);
  const gathered = precision === 'fp32' ? bytes.weight : 2;
  if (parameters * candidate.least({ ...bytes, gathered }, gpus) > capacityBytes) {
    return { ...about, fit: 'no' };
  }
  const traced = { ...workload, batch, precision: inSharding.precision, checkpointing, parallel };
  const found = await estimate(traced);
  return { ...about, peak: found.peak, fit: fitOf(found, capacityBytes) };
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
