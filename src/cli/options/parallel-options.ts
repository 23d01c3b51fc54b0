import { type Command, Option } from 'commander';
import { doubledCounts } from '../../estimate/over-ranks.js';
import {
  type FsdpStrategy,
  fsdpStrategies,
  type PlainPrecision,
  parallelWays,
  plainPrecisions,
} from '../../estimate/parallel.js';
import type { WorkloadRequest } from '../../plan/answers/workload-request.js';
import type { Offload } from '../../plan/fit/types.js';
import { badArgument, countArgument, oneOfArgument } from './arguments.js';

/** What the options below become; what was not given is absent. */
export interface ParallelArguments {
  readonly gpus?: number | undefined;
  readonly parallel?: string;
  readonly tp?: number;
  readonly nodes?: number;
  readonly gatherPrecision?: PlainPrecision;
  readonly reducePrecision?: PlainPrecision;
  /** False with --no-reshard. */
  readonly reshard?: boolean;
  readonly fsdpStrategy?: FsdpStrategy;
  /** False with --no-orig-params. */
  readonly origParams?: boolean;
  readonly bucketMb?: number;
  readonly bucketView?: boolean;
  readonly offload?: Offload;
}

/** How a job is spread over GPUs: the figures are then those of one rank. */
export function addParallelOptions(command: Command): Command {
  return (
    command
      .option(
        '--gpus <n>',
        'GPUs that share the job (1); 2..512 shows what fills a rank over their number',
        gpuCounts,
      )
      .option('--parallel <way>', `how they share it: ${parallelWays.join(', ')}`)
      .option('--tp <n>', 'with fsdp2 or tp: GPUs that share each layer', countArgument('--tp'))
      .option(
        '--nodes <n>',
        'machines; hsdp keeps one copy of the model on each (2)',
        countArgument('--nodes'),
      )
      .option(
        '--gather-precision <name>',
        `FSDP: parameters are gathered in ${plainPrecisions.join(', ')} (--precision)`,
        oneOfArgument('--gather-precision', plainPrecisions),
      )
      .option(
        '--reduce-precision <name>',
        'FSDP: gradients are reduced in it (as they are)',
        oneOfArgument('--reduce-precision', plainPrecisions),
      )
      // With a positive form beside it, commander leaves an option undefined that was not given.
      .addOption(new Option('--reshard').hideHelp())
      .option('--no-reshard', 'FSDP: keep gathered parameters until backward')
      .option(
        '--fsdp-strategy <name>',
        'full, or grad-op: parameters stay gathered until backward (full)',
        oneOfArgument('--fsdp-strategy', fsdpStrategies),
      )
      .addOption(new Option('--orig-params').hideHelp())
      .option('--no-orig-params', 'FSDP1 with use_orig_params=False')
      .option('--bucket-mb <n>', 'DDP: size of a bucket (25)', countArgument('--bucket-mb'))
      .option('--bucket-view', 'DDP: gradients lie in the buckets')
      .option(
        '--offload <what>',
        'optimizer: its states and its step are on the host',
        oneOfArgument('--offload', ['optimizer'] as const),
      )
  );
}

/** Only what was given: a request that names a field is refused where it has no use. */
export function parallelRequest(given: ParallelArguments): Partial<WorkloadRequest> {
  const all: Partial<WorkloadRequest> = {
    parallel: given.parallel,
    tp: given.tp,
    nodes: given.nodes,
    gatherPrecision: given.gatherPrecision,
    reducePrecision: given.reducePrecision,
    reshard: given.reshard,
    fsdpStrategy: given.fsdpStrategy,
    origParams: given.origParams,
    bucketMb: given.bucketMb,
    bucketView: given.bucketView,
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

/** One number of GPUs, or the counts of a range. */
export type GpuCounts = number | readonly number[];

function gpuCounts(text: string): GpuCounts {
  const [, first, last] = /^(\d{1,8})\.\.(\d{1,8})$/.exec(text) ?? [];
  if (first === undefined || last === undefined) return countArgument('--gpus')(text);
  const [from, to] = [first, last].map(countArgument('--gpus'));
  if (from === undefined || to === undefined || from < 2 || from > to) {
    throw badArgument('--gpus', text, 'A range goes up from 2 or more, such as 2..512.');
  }
  return doubledCounts(from, to);
}
