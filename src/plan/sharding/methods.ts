import type { Parallel } from '../../estimate/parallel.js';
import type { Estimate, Precision, Workload } from '../../estimate/types.js';
import { fitOf } from '../fit/fit.js';
import { parameterBytes } from '../fit/least-states.js';
import type { ShardingOption, ShardingRequest } from './sharding-option.js';

export type Estimator = (workload: Workload) => Promise<Estimate>;
/** A method with what it needs, where it was traced. */
export interface Evaluated {
  readonly option: ShardingOption;
  readonly estimate?: Estimate;
}
/** Bytes of one parameter. */
interface ParameterBytes {
  readonly weight: number;
  readonly states: number;
  readonly gathered: number;
}
export interface Candidate {
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
export const sharded: Candidate = {
  parallel: { way: 'fsdp2' },
  checkpointing: false,
  least: ({ weight, states }, gpus) => (weight + states) / gpus,
  givesUp: 'parameters are gathered twice a pass',
};

export function recomputed(candidate: Candidate): Candidate {
  const first = candidate === copied ? '' : `${candidate.givesUp}, and `;
  return { ...candidate, checkpointing: true, givesUp: `${first}forward is computed twice` };
}

/** The fastest first; the last saves the most. */
export function candidatesOf(
  checkpointing: ShardingRequest['checkpointing'],
): readonly Candidate[] {
  const fast = [copied, kept, sharded];
  if (checkpointing === 'always') return fast.map(recomputed);
  return checkpointing === 'never' ? fast : [...fast, recomputed(sharded)];
}

/** What a rank takes before each step of the optimizer. */
export function batchOfRank({
  workload,
  gpus,
}: Pick<ShardingRequest, 'workload' | 'gpus'>): number {
  return Math.max(1, Math.ceil(workload.batch / gpus));
}

/** What a method is with so many samples in each pass, but for what it needs. */
export function optionOf(
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
export async function evaluated(
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
