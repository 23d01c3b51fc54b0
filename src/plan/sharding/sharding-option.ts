import type { Parallel } from '../../estimate/parallel.js';
import type { Estimate, Optimizer, Precision, Workload } from '../../estimate/types.js';
import type { Configuration, Fit, ZeroStage } from '../fit/types.js';

/** One method to share a training out over GPUs, with what a rank then needs. */
export interface ShardingOption {
  readonly parallel: Parallel;
  /** `amp-` keeps weights in 32 bits and computes in 16, by autocast or by FSDP's own mixed precision. */
  readonly precision: Precision;
  readonly optimizer: Optimizer;
  readonly checkpointing: boolean;
  /** Samples of one rank in one pass. */
  readonly batch: number;
  /** Passes before each step of the optimizer. The effective batch is batch x accumulation x GPUs. */
  readonly accumulation: number;
  /** Absent where weights and states alone are more than a card has: it was not traced. */
  readonly peak?: Estimate['peak'];
  readonly fit: Fit;
  readonly givesUp: string;
}

export interface Sharding {
  /** The fastest that fits; absent where none does. */
  readonly chosen?: ShardingOption;
  /** In the order of their speed with the whole batch at once, as far as they were looked at. */
  readonly tried: readonly ShardingOption[];
}

/** The same, with the trace behind the answer: of what was chosen, or of the last where nothing fits. */
export interface TracedSharding extends Sharding {
  /** Absent where not even the last was traced. */
  readonly estimate?: Estimate;
}

export interface ShardingRequest {
  /** The training; its batch is that of all ranks together, its checkpointing does not count. */
  readonly workload: Workload;
  readonly parameters?: number | undefined;
  readonly capacityBytes: number;
  readonly gpus: number;
  readonly checkpointing: 'never' | 'if-needed' | 'always';
  /** How much a sample gives a GPU to do: what passes and exchanges cost is counted in tokens. */
  readonly tokensPerSample: number;
  /** No batch was asked for, so that of the method that is chosen takes what room there is. */
  readonly grows?: boolean;
}

/** A method to share a training out, as a plan has it: how much of the job each GPU keeps. */
export function configurationOf(option: Omit<ShardingOption, 'fit'>): Configuration {
  const { parallel, precision, optimizer, checkpointing } = option;
  const zero: ZeroStage = parallel.way === 'ddp' ? 0 : parallel.reshard === false ? 2 : 3;
  const givesUp: readonly string[] = [];
  return {
    precision,
    optimizer,
    checkpointing,
    offload: 'none',
    zero,
    concession: 'speed',
    givesUp,
  };
}
