import { Failure } from '../../failure.js';
import { configurationsToTry } from '../fit/configurations.js';
import { planMaxBatch } from '../fit/plan-max-batch.js';
import { assumedBatch, batchOfOneGpu, planSettings } from '../fit/plan-settings.js';
import type { ChangeableSetting, Plan } from '../fit/types.js';
import type { FromPretrainedArguments } from '../quantization/bits-and-bytes.js';
import { planOfSharding } from '../sharding/sharded-plan.js';
import { findSource } from './find-source.js';
import { type AnswerMachine, chosenGpu } from './machine.js';
import { planEstimators } from './plan-estimators.js';
import { loadingOf } from './plan-loading.js';
import { type PlanBudget, type PreparedPlan, planRequest } from './plan-request.js';
import {
  isShared,
  isShownBySharing,
  neededSharding,
  type PlanSharding,
  sharedTraining,
  written,
} from './plan-sharding.js';
import { checkRequest, readWorkload } from './read-workload.js';
import type { RequestWording } from './wording.js';
import type { PlanAnswerRequest, WorkloadRequest } from './workload-request.js';

/** A plan with how several GPUs share the training, where that was asked or is needed. */
export interface SharedPlan extends Plan {
  readonly sharding?: PlanSharding;
}

/** A plan with the budget it was made for, and how to load the model where that matters. */
export interface PlanDocument extends SharedPlan {
  readonly budget: PlanBudget;
  readonly loading?: FromPretrainedArguments;
  /** The file that keeps the loading. */
  readonly savedTo?: string;
}

/**
 * What `plimsoll plan --json` answers. A request that cannot be answered is a `Failure` that names
 * the field; one that nothing fits is an answer with `fits` false.
 *
 * @example
 * const plan = await answerPlan({ model: '/models/gpt2', memoryBytes: 24 * 2 ** 30 }, machine);
 * plan.settings.batch;
 */
export async function answerPlan(
  request: PlanAnswerRequest,
  machine: AnswerMachine,
): Promise<PlanDocument> {
  const prepared = await preparePlan(request, machine);
  const plan = await makeSharedPlan(prepared, machine);
  return planDocument(plan, prepared, {
    loading: loadingOf(plan, prepared.request, machine)?.arguments,
  });
}

/** What a job that must fit has: a device, and what its program can be told. */
export interface PlanWithin {
  /** Of each device, all that the job may take, its context included. */
  readonly capacityBytes: number;
  readonly mayChange: readonly ChangeableSetting[];
}

/** The same as `answerPlan` for a job that must fit a device, and can be told only some settings. */
export async function answerPlanWithin(
  request: WorkloadRequest,
  within: PlanWithin,
  machine: AnswerMachine,
): Promise<Plan> {
  return makePlan(await preparePlanWithin(request, within, machine), machine);
}

export async function preparePlanWithin(
  request: WorkloadRequest,
  { capacityBytes, mayChange }: PlanWithin,
  machine: AnswerMachine,
): Promise<PreparedPlan> {
  const { gpu } = await chosenGpu(request.gpu, machine);
  // The context is no part of what a plan shares out.
  const memoryBytes = Math.max(1, capacityBytes - gpu.context.bytes);
  return preparePlan({ ...request, memoryBytes }, machine, mayChange);
}

/** Everything that can be told to be wrong before anything takes its time. */
export async function preparePlan(
  request: PlanAnswerRequest,
  machine: AnswerMachine,
  mayChange?: readonly ChangeableSetting[],
): Promise<PreparedPlan> {
  const { wording } = machine;
  const checked = checkRequest(request, wording, 'plan');
  const read = readWorkload(checked, wording);
  const { workload, method, gpu: named } = read;
  if (read.source.kind === 'type') throw noRuleOfThumb();
  if (checked.accumulation !== undefined) throw chosenByPlan(wording);
  const { source, notes: found } = await findSource(read.source, machine);
  const { gpu, notes } = await chosenGpu(named, machine);
  const { memoryBytes: memory, gpus = 1, maxBatch = false, zero, offload } = checked;
  const gpuNamed = named !== undefined;
  const limits = { memory, gpus, maxBatch, zero, offload, gpuNamed, mayChange };
  const planned = await planRequest({ source, workload, gpu }, limits, machine);
  return {
    source,
    gpu,
    method,
    maxBatch,
    request: planned,
    notes: [...found, ...notes, ...planned.notes],
  };
}

export async function makePlan(prepared: PreparedPlan, machine: AnswerMachine): Promise<Plan> {
  const { wishes, facts } = prepared.request;
  const make = prepared.maxBatch ? planMaxBatch : planSettings;
  const plan = await make(wishes, facts, planEstimators(prepared, machine), machine.wording);
  return { ...plan, notes: [...plan.notes, ...prepared.notes] };
}

/** The same, with how several GPUs share the training: each method to do so takes a trace. */
export async function makeSharedPlan(
  prepared: PreparedPlan,
  machine: AnswerMachine,
): Promise<SharedPlan> {
  if (isShared(prepared)) return planOfSeveral(prepared, machine);
  const plan = await makePlan(prepared, machine);
  const sharding = await unlessRefused(neededSharding(plan, prepared, machine));
  if (typeof sharding === 'string') return { ...plan, notes: [...plan.notes, sharding] };
  return sharding === undefined ? plan : { ...plan, sharding };
}

/**
 * Where GPUs were named the traces decide: what they show is the plan, and arithmetic is asked only for
 * what they do not cover, which gives up more.
 */
async function planOfSeveral(prepared: PreparedPlan, machine: AnswerMachine): Promise<SharedPlan> {
  const { wishes, facts } = prepared.request;
  batchOfOneGpu(wishes, facts, machine.wording);
  const traced = await unlessRefused(sharedTraining(prepared, machine));
  if (typeof traced === 'string') {
    const plan = await makePlan(prepared, machine);
    return { ...plan, notes: [...plan.notes, traced] };
  }
  const sharding = written(facts.gpus, false, traced);
  const isShown = isShownBySharing(prepared);
  const isMore = configurationsToTry(wishes, facts, machine.wording).some((one) => !isShown(one));
  const shown = planOfSharding(traced, facts);
  if (shown && (shown.fits || !isMore)) {
    const assumed = wishes.batch === undefined ? [assumedBatch('train', machine.wording)] : [];
    return { ...shown, notes: [...assumed, ...prepared.notes], sharding };
  }
  const request = isMore ? { ...prepared.request, facts: { ...facts, isShown } } : prepared.request;
  const plan = await makePlan({ ...prepared, request }, machine);
  const note = `Traced, the whole training fits ${facts.gpus} such GPUs in none of the ways below. This plan gives up more, and how it is shared out is arithmetic.`;
  return { ...plan, notes: [...(isMore ? [note] : []), ...plan.notes], sharding };
}

/** In words where there is no Python, or the model cannot be traced: the plan by arithmetic stands. */
async function unlessRefused<T>(made: Promise<T>): Promise<T | string> {
  try {
    return await made;
  } catch (error) {
    if (!(error instanceof Failure) || error.kind === 'interrupted') throw error;
    return `How several GPUs would share this training is not worked out: ${error.fact}`;
  }
}

/** As the contract has it first, then all else. */
export function planDocument(
  plan: SharedPlan,
  { request }: PreparedPlan,
  more: {
    readonly loading?: FromPretrainedArguments | undefined;
    readonly savedTo?: string | undefined;
  } = {},
): PlanDocument {
  const { fits, settings, estimate, alternatives, notes, ...others } = plan;
  const { loading, savedTo } = more;
  return {
    fits,
    settings,
    estimate,
    alternatives,
    ...others,
    budget: request.budget,
    ...(loading !== undefined && { loading }),
    ...(savedTo !== undefined && { savedTo }),
    notes,
  };
}

function chosenByPlan({ name, example }: RequestWording): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-usage',
    fact: `A plan chooses ${name('accumulation')} itself, from the effective ${name('batch')}.`,
    next: `Leave it out, and give the effective batch, such as ${example('batch', 64)}: batch x accumulation is kept.`,
  });
}

function noRuleOfThumb(): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-usage',
    fact: 'A plan needs more than a type and a size.',
    next: 'Name a config.json, or a script.',
  });
}
