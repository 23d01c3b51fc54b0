import type { Gpu } from '../../estimate/cards/gpu-table.js';
import { allGpus } from '../../estimate/cards/gpus.js';
import { shippedCatalogue } from '../../model/names/catalogue.js';
import { GiB } from '../../units/bytes.js';
import { prepareEstimate } from './answer-estimate.js';
import { preparePlan } from './answer-plan.js';
import { type AnswerMachine, chosenGpu } from './machine.js';
import { servingAssumptions } from './serving/answer-serving.js';
import { isServing } from './serving/serving-request.js';
import type { PlanAnswerRequest, WorkloadRequest } from './workload-request.js';

/** The value of each field that was left out, by the names of a request; what is open is absent. */
export type Assumptions = Partial<WorkloadRequest>;

/**
 * The values that `answerEstimate` takes for what a request leaves out. It reads the model, and
 * estimates nothing.
 *
 * @example
 * (await estimateAssumptions({ model: 'gpt2' }, machine)).seq; // 1024
 */
export async function estimateAssumptions(
  request: WorkloadRequest,
  machine: AnswerMachine,
): Promise<Assumptions> {
  if (isServing(request)) return openOnly(request, await servingAssumptions(request, machine));
  const { workload, gpu } = await prepareEstimate(request, machine);
  const { mode, batch, sequence, image, precision } = workload;
  const { keep = 'loss', optimizer, checkpointing } = workload;
  const training = mode === 'train' ? { keep, optimizer, checkpointing } : {};
  return openOnly(request, {
    ...{ mode, batch, seq: sequence, image, precision, gpu: gpu.name },
    ...training,
  });
}

/** The same for `answerPlan`, which chooses most of what is left out. */
export async function planAssumptions(
  request: PlanAnswerRequest,
  machine: AnswerMachine,
): Promise<Assumptions> {
  // Nothing that is assumed depends on the budget.
  const { memoryBytes = GiB } = request;
  const prepared = await preparePlan({ ...request, memoryBytes }, machine);
  const { mode, sequence, image } = prepared.request.wishes;
  return openOnly(request, { mode, seq: sequence, image });
}

function openOnly(request: WorkloadRequest, all: Assumptions): Assumptions {
  const asked = new Set(
    Object.entries(request).flatMap(([field, value]) => ((value ?? null) === null ? [] : field)),
  );
  return Object.fromEntries(
    Object.entries(all).filter(([field, value]) => value !== undefined && !asked.has(field)),
  );
}

/** What can be named in a request. */
export interface KnownNames {
  readonly models: readonly string[];
  readonly gpus: readonly Pick<Gpu, 'name' | 'capacityBytes'>[];
  /** The card of a request that names none, and whether this machine has it. */
  readonly gpu: { readonly name: string; readonly isHere: boolean };
}

/** The models of the catalogue, and all cards. */
export async function knownNames(machine: AnswerMachine): Promise<KnownNames> {
  const { gpu, isHere } = await chosenGpu(undefined, machine);
  return {
    models: shippedCatalogue().models.map(({ name }) => name),
    gpus: allGpus(machine.gpus).map(({ name, capacityBytes }) => ({ name, capacityBytes })),
    gpu: { name: gpu.name, isHere },
  };
}
