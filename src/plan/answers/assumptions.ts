import { allGpus } from '../../estimate/cards/gpus.js';
import { shippedCatalogue } from '../../model/names/find-model.js';
import { GiB } from '../../units/bytes.js';
import { prepareEstimate } from './answer-estimate.js';
import { preparePlan } from './answer-plan.js';
import { type AnswerMachine, chosenGpu } from './machine.js';
import { servingAssumptions } from './serving/answer-serving.js';
import { isServing } from './serving/serving-request.js';
import type {
  Assumptions,
  KnownNames,
  PlanAnswerRequest,
  WorkloadRequest,
} from './workload-request.js';

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
  const always = { mode, batch, seq: sequence, image, precision, gpu: gpu.name };
  return openOnly(request, { ...always, ...training });
}

/** The same for `answerPlan`, which chooses most of what is left out. */
export async function planAssumptions(
  request: PlanAnswerRequest,
  machine: AnswerMachine,
): Promise<Assumptions> {
  // Nothing that is assumed depends on the budget.
  const { memoryBytes = GiB } = request;
  const prepared = await preparePlan({ ...request, memoryBytes }, machine);
  const { mode, sequence, image, keep = 'loss' } = prepared.request.wishes;
  const training = mode === 'train' ? { keep } : {};
  return openOnly(request, { mode, seq: sequence, image, ...training });
}

function openOnly(request: WorkloadRequest, all: Assumptions): Assumptions {
  const asked = new Set(
    Object.entries(request).flatMap(([field, value]) => ((value ?? null) === null ? [] : field)),
  );
  return Object.fromEntries(
    Object.entries(all).filter(([field, value]) => value !== undefined && !asked.has(field)),
  );
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
