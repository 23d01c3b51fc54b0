import type { Parallel } from '../../estimate/parallel.js';
import type { Estimate, Workload } from '../../estimate/types.js';
import { fitOf } from '../fit/fit.js';
import type { Fit } from '../fit/types.js';

/** One method to share a training out over GPUs, with what a rank then needs. */
export interface ShardingOption {
  readonly parallel: Parallel;
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
  /** What is trained; its batch is that of all ranks together. */
  readonly workload: Workload;
  readonly parameters?: number | undefined;
  readonly capacityBytes: number;
  readonly gpus: number;
  readonly mayCheckpoint: boolean;
}

type Estimator = (workload: Workload) => Promise<Estimate>;
type Candidate = Pick<ShardingOption, 'checkpointing' | 'givesUp'> & {
  readonly parallel: Omit<Parallel, 'gpus'>;
  readonly precision: Workload['precision'];
  /** Bytes of a parameter on one rank: weights and states of AdamW in float32. */
  readonly stateBytes: (gpus: number) => number;
};

const mixed = { gatherPrecision: 'bf16', reducePrecision: 'fp32' } as const;
const shared = (gpus: number) => 12 / gpus;

const sharded: Candidate = {
  parallel: { way: 'fsdp2', ...mixed },
  precision: 'fp32',
  checkpointing: false,
  stateBytes: shared,
  givesUp: 'parameters are gathered twice a pass',
};
const recomputed: Candidate = {
  ...sharded,
  checkpointing: true,
  givesUp: 'parameters are gathered twice a pass, and forward is computed twice',
};

/** The fastest first; the last saves the most. */
const candidates: readonly Candidate[] = [
  {
    parallel: { way: 'ddp' },
    precision: 'amp-bf16',
    checkpointing: false,
    stateBytes: () => 20,
    givesUp: 'nothing: every GPU holds the whole model',
  },
  {
    parallel: { way: 'fsdp2', ...mixed, reshard: false },
    precision: 'fp32',
    checkpointing: false,
    stateBytes: (gpus) => shared(gpus) + 2,
    givesUp: 'parameters are gathered once a pass',
  },
  sharded,
  recomputed,
];

/** Counts of GPUs that are tried where none was named. */
const gpuCounts = [2, 4, 8, 16, 32, 64, 128, 256, 512] as const;
const maxGpus = 512;

/**
 * The fastest method to share a training out that fits each GPU. Ends at the first that surely fits.
 *
 * @example
 * const { chosen } = await chooseSharding({ workload, capacityBytes, gpus: 8, mayCheckpoint: true }, judge);
 * chosen?.parallel.way; // 'fsdp2'
 */
export async function chooseSharding(
  request: ShardingRequest,
  estimate: Estimator,
): Promise<Sharding> {
  const tried: ShardingOption[] = [];
  for (const candidate of candidates) {
    if (candidate.checkpointing && !request.mayCheckpoint) continue;
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
  const saving = request.mayCheckpoint ? recomputed : sharded;
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
  const { checkpointing, givesUp, precision, stateBytes } = candidate;
  const parallel: Parallel = { ...candidate.parallel, gpus };
  const batch = Math.max(1, Math.ceil(workload.batch / gpus));
  const about = { parallel, checkpointing, batch, givesUp };
  if (parameters * stateBytes(gpus) > capacityBytes) return { ...about, fit: 'no' };
  const found = await estimate({ ...workload, batch, precision, checkpointing, parallel });
  return { ...about, peak: found.peak, fit: fitOf(found, capacityBytes) };
}
