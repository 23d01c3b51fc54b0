import type { Gpu } from '../../estimate/cards/gpu-table.js';
import { type EstimateRequest, estimate } from '../../estimate/estimate.js';
import { findSavings } from '../../estimate/savings.js';
import type { Estimate } from '../../estimate/types.js';
import { closedWorkload } from './closed-workload.js';
import { findSource, readModelOf } from './find-source.js';
import { type AnswerMachine, checkMachine, chosenGpu } from './machine.js';
import { withOwnInput } from './plan-input.js';
import { parallelOf } from './read-parallel.js';
import { checkRequest, readWorkload } from './read-workload.js';
import {
  type RecommendedQuantization,
  recommendedQuantization,
} from './recommended-quantization.js';
import type { WorkloadRequest } from './workload-request.js';

/** A request that holds together: what is left is to find out. */
export interface PreparedEstimate extends EstimateRequest {
  /** Why it is this card, where none was named. */
  readonly notes: readonly string[];
}

/** What an estimate is read against. */
export type CardOfEstimate = Pick<Gpu, 'name' | 'capacityBytes' | 'context'>;

export function cardOfEstimate({ name, capacityBytes, context }: Gpu): CardOfEstimate {
  return { name, capacityBytes, context };
}

/** An estimate with the card that it is for. */
export interface EstimateDocument extends Estimate {
  readonly gpu: CardOfEstimate;
  readonly recommendedQuantization?: RecommendedQuantization;
}

/**
 * What `plimsoll estimate --json` answers. A request that cannot be answered is a `Failure` that
 * names the field.
 *
 * @example
 * const { peak } = await answerEstimate({ model: '/models/gpt2', batch: 8, seq: 1024 }, machine);
 * peak.deviceBytes;
 */
export async function answerEstimate(
  request: WorkloadRequest,
  machine: AnswerMachine,
): Promise<EstimateDocument> {
  checkMachine('answerEstimate', machine);
  return makeEstimate(await prepareEstimate(request, machine), machine);
}

/** Everything that can be told to be wrong before anything takes its time. */
export async function prepareEstimate(
  request: WorkloadRequest,
  machine: AnswerMachine,
): Promise<PreparedEstimate> {
  const { wording } = machine;
  const checked = checkRequest(request, wording, 'estimate');
  const parallel = parallelOf(checked, wording);
  const read = readWorkload(checked, wording);
  const { source, notes: found } = await findSource(read.source, machine);
  const { gpu, notes } = await chosenGpu(read.gpu, machine);
  const model = await readModelOf(source, machine);
  const filled = withOwnInput(read.workload, source, model, gpu, machine);
  return {
    source,
    workload: {
      ...closedWorkload(filled.workload, source, wording),
      ...(parallel !== undefined && { parallel }),
    },
    gpu,
    method: read.method,
    notes: [...found, ...filled.notes, ...notes],
  };
}

/** What the formula knows of savings costs nothing; traces take their time. */
export async function makeEstimate(
  { notes, ...request }: PreparedEstimate,
  machine: AnswerMachine,
  traceSavings = false,
): Promise<EstimateDocument> {
  const found = await estimate(request, machine);
  const basis = traceSavings && found.method === 'trace' ? 'trace' : 'formula';
  // What the formula sees of one GPU says nothing of a rank.
  const asked = basis === 'trace' || request.workload.parallel === undefined;
  const savings = asked ? await findSavings(request, found, machine, basis) : [];
  const answer = savings.length === 0 ? found : { ...found, savings };
  const recommended = await recommendedQuantization(request, found, machine);
  return {
    ...answer,
    gpu: cardOfEstimate(request.gpu),
    ...(recommended !== undefined && { recommendedQuantization: recommended }),
    notes: [...notes, ...found.notes],
  };
}
