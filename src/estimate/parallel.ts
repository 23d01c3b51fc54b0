/** How a job is spread over GPUs; each rank runs on one of them. */
export interface Parallel {
  readonly way: ParallelMethod;
  readonly gpus: number;
  /** Ranks that share each layer (tensor parallelism); 1 where it is left out. */
  readonly tensorParallel?: number | undefined;
  /** Machines; `hsdp` keeps one copy of the model on each. */
  readonly nodes?: number | undefined;
  /** The type in which parameters are gathered, where it is not that of the weights. */
  readonly gatherPrecision?: PlainPrecision | undefined;
  /** The type in which gradients are reduced, where it is not that of the gradients. */
  readonly reducePrecision?: PlainPrecision | undefined;
  /** False: what was gathered for forward is kept until backward. */
  readonly reshard?: boolean | undefined;
  readonly fsdpStrategy?: FsdpStrategy | undefined;
  /** False: FSDP1 with `use_orig_params=False`. */
  readonly originalParameters?: boolean | undefined;
  readonly bucketMb?: number | undefined;
  /** Gradients lie in DDP's buckets (`gradient_as_bucket_view`). */
  readonly bucketView?: boolean | undefined;
  /** `optimizer`: its state and its step are on the host. */
  readonly offload?: 'optimizer' | undefined;
}

export const parallelWays = [
  'ddp',
  'fsdp1',
  'fsdp2',
  'hsdp',
  'tp',
  'zero1',
  'zero2',
  'zero3',
] as const;
export type ParallelMethod = (typeof parallelWays)[number];

/** Methods of spreading over GPUs that are not supported. */
export const uncountedWays = ['pp', 'pipeline', 'cp', 'context', 'sp', 'ep', 'expert'] as const;

export const plainPrecisions = ['fp32', 'bf16', 'fp16'] as const;
export type PlainPrecision = (typeof plainPrecisions)[number];

export const fsdpStrategies = ['full', 'grad-op'] as const;
export type FsdpStrategy = (typeof fsdpStrategies)[number];

/** Which ranks there are, in the JSON of an estimate. */
export interface Ranks {
  readonly count: number;
  readonly parallel: ParallelMethod;
  /** The rank whose memory the figures are: none holds more. */
  readonly traced: number;
  readonly nodes: number;
  readonly tensorParallel: number;
  /** Over how many ranks each parameter is cut, tensor parallelism aside; 1: every rank has all of it. */
  readonly shards: number;
  /** Groups of processes that exchange data, each with buffers of its own. */
  readonly communicators: number;
}

/**
 * The ranks of a job.
 *
 * @example
 * ranksOf({ way: 'hsdp', gpus: 16, nodes: 2 }).shards; // 8
 */
export function ranksOf(parallel: Parallel): Ranks {
  const { way, gpus, nodes = 1 } = parallel;
  const tensorParallel = parallel.tensorParallel ?? (way === 'tp' ? gpus : 1);
  const others = gpus / tensorParallel;
  const whole = way === 'ddp' || way === 'zero1' || way === 'zero2';
  return {
    count: gpus,
    parallel: way,
    traced: 0,
    nodes,
    tensorParallel,
    shards: whole ? 1 : way === 'hsdp' ? others / nodes : others,
    communicators: (others > 1 ? 1 : 0) + (tensorParallel > 1 ? 1 : 0) + (way === 'hsdp' ? 1 : 0),
  };
}

/**
 * Bytes that NCCL keeps for one communicator: for each of 16 channels, in both its ring and its
 * tree, 4 MiB for the plain protocol, 4.7 MiB and 0.5 MiB for the two with low latency. They depend
 * on the links between the cards: half and twice as much were seen.
 */
const communicatorBytes = 16 * 2 * (4_194_304 + 4_915_200 + 524_288);

/** Buffers of NCCL on one rank, which PyTorch's allocator does not know of. Estimated, not measured. */
export function communicationBytes(parallel: Parallel): number {
  return ranksOf(parallel).communicators * communicatorBytes;
}
