import type { Gpu } from '../../estimate/cards/gpu-table.js';
import { type EstimateRequest, estimate } from '../../estimate/estimate.js';
import { findSavings } from '../../estimate/savings.js';
import type { Estimate } from '../../estimate/types.js';
import { closedWorkload } from './closed-workload.js';
import { type AnswerMachine, chosenGpu } from './machine.js';
import { checkRequest, readWorkload } from './read-workload.js';
import type { WorkloadRequest } from './workload-request.js';

/** A request that holds together: what is left is to find out. */
export interface PreparedEstimate extends EstimateRequest {
  /** Why it is this card, where nobody named one. */
  readonly notes: readonly string[];
}

/** An estimate with the card that it is for. */
export interface EstimateDocument extends Estimate {
  readonly gpu: Pick<Gpu, 'name' | 'capacityBytes'>;
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
  return makeEstimate(await prepareEstimate(request, machine), machine);
}

/** Everything that can be told to be wrong before anything takes its time. */
export async function prepareEstimate(
  request: WorkloadRequest,
  machine: AnswerMachine,
): Promise<PreparedEstimate> {
  const { wording } = machine;
  const read = readWorkload(checkRequest(request, wording, 'estimate'), wording);
  const { source, method } = read;
  const { gpu, notes } = await chosenGpu(read.gpu, machine);
  return { source, workload: closedWorkload(read.workload, source, wording), gpu, method, notes };
}

/** What the formula knows of savings costs nothing; traces take their time. */
export async function makeEstimate(
  { notes, ...request }: PreparedEstimate,
  machine: AnswerMachine,
  traceSavings = false,
): Promise<EstimateDocument> {
  const found = await estimate(request, machine);
  const basis = traceSavings && found.method === 'trace' ? 'trace' : 'formula';
  const savings = await findSavings(request, found, machine, basis);
  const answer = savings.length === 0 ? found : { ...found, savings };
  const { name, capacityBytes } = request.gpu;
  return { ...answer, gpu: { name, capacityBytes }, notes: [...notes, ...found.notes] };
}
