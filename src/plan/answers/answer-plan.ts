import type { Gpu } from '../../estimate/cards/gpu-table.js';
import { type EstimateMethod, estimate } from '../../estimate/estimate.js';
import type { ModelSource } from '../../estimate/model-source.js';
import type { Estimate, QuantizationPreset, Workload } from '../../estimate/types.js';
import { Failure } from '../../failure.js';
import { checkArguments, object, texts, whole } from '../../units/arguments.js';
import { configurationsToTry } from '../fit/configurations.js';
import { byWorth, costOf, optionOf } from '../fit/options.js';
import { planMaxBatch } from '../fit/plan-max-batch.js';
import { assumedBatch, batchOfOneGpu, planSettings } from '../fit/plan-settings.js';
import type {
  ChangeableSetting,
  Configuration,
  Plan,
  PlanEstimators,
  PlanFacts,
  PlanOption,
} from '../fit/types.js';
import {
  bitsAndBytesArguments,
  type ComputeDtype,
  type FromPretrainedArguments,
  type QuantizationMemory,
} from '../quantization/bits-and-bytes.js';
import { choosePreset } from '../quantization/choose.js';
import { chooseSharding, neededGpus } from '../sharding/choose-sharding.js';
import {
  configurationOf,
  type Sharding,
  type ShardingOption,
  type ShardingRequest,
  type TracedSharding,
} from '../sharding/sharding-option.js';
import { shardingSnippet } from '../snippets/sharding.js';
import { findSource } from './find-source.js';
import { type AnswerMachine, checkMachine, chosenGpu } from './machine.js';
import {
  type PlanBudget,
  type PlanRequest,
  type PreparedPlan,
  planRequest,
  sourceFor,
} from './plan-request.js';
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
 * Answers `plimsoll plan --json`. A request that cannot be answered is a `Failure` that names the
 * field; if nothing fits, the answer has `fits` false.
 *
 * @example
 * const plan = await answerPlan({ model: '/models/gpt2', memoryBytes: 24 * 2 ** 30 }, machine);
 * plan.settings.batch;
 */
export async function answerPlan(
  request: PlanAnswerRequest,
  machine: AnswerMachine,
): Promise<PlanDocument> {
  checkMachine('answerPlan', machine);
  const prepared = await preparePlan(request, machine);
  const plan = await makeSharedPlan(prepared, machine);
  return planDocument(plan, prepared, {
    loading: loadingOf(plan, prepared.request, machine)?.arguments,
  });
}

/** The room of a job that must fit: a device, and the settings its program accepts. */
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
  checkMachine('answerPlanWithin', machine);
  checkArguments(
    'answerPlanWithin',
    { request, ...Object(within) },
    { request: object, capacityBytes: whole(1), mayChange: texts },
  );
  return makePlan(await preparePlanWithin(request, within, machine), machine);
}

export async function preparePlanWithin(
  request: WorkloadRequest,
  { capacityBytes, mayChange }: PlanWithin,
  machine: AnswerMachine,
): Promise<PreparedPlan> {
  return preparePlan({ ...request, memoryBytes: capacityBytes }, machine, mayChange);
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
  const { gpu, isHere, notes } = await chosenGpu(named, machine);
  const { memoryBytes: memory, allocatorMemoryBytes: allocatorMemory } = checked;
  const { gpus = 1, maxBatch = false, zero, offload } = checked;
  // Without a budget a card of this machine is planned for as if it was named.
  const isOpen = memory === undefined && allocatorMemory === undefined;
  const gpuNamed = named !== undefined || (isOpen && isHere);
  const limits = { memory, allocatorMemory, gpus, maxBatch, zero, offload, gpuNamed, mayChange };
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
 * Plans for the named GPUs. Traces decide; arithmetic is used only for larger concessions, which
 * the traces do not cover.
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
  const { fits, settings, estimate: estimated, alternatives, notes, ...others } = plan;
  const { loading, savedTo } = more;
  return {
    fits,
    settings,
    estimate: estimated,
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

/** How several GPUs share a training, traced, with what to paste. */
interface PlanSharding extends Sharding {
  readonly gpus: number;
  /** Whether the number of GPUs is an answer, and not what was asked for. */
  readonly needed: boolean;
  /** Changes of the request; absent if there are none. */
  readonly changes?: string;
  readonly snippet?: string;
}

/** For how many samples a rank settings are chosen where no batch was named; then it grows. */
const defaultBatch = 8;

/** Whether GPUs were named, and how they share a training is traced. */
function isShared(prepared: PreparedPlan): boolean {
  return prepared.request.facts.gpus > 1 && isTraced(prepared);
}

/** Traces the methods to share a training out over the GPUs that were named. */
function sharedTraining(prepared: PreparedPlan, machine: AnswerMachine): Promise<TracedSharding> {
  const { gpus } = prepared.request.facts;
  const { batch } = prepared.request.wishes;
  const asked = { ...askedOf(prepared, batch ?? defaultBatch * gpus), gpus };
  return chooseSharding({ ...asked, grows: batch === undefined }, judgeOf(prepared, machine));
}

/**
 * Over how many GPUs a training is shared out where one is not enough for training the whole model, and
 * how. Undefined where that is not asked.
 */
async function neededSharding(
  plan: Plan,
  prepared: PreparedPlan,
  machine: AnswerMachine,
): Promise<PlanSharding | undefined> {
  const { facts, wishes } = prepared.request;
  if (facts.gpus > 1 || !isTraced(prepared)) return undefined;
  if (plan.fits && plan.settings.lora === 'none') return undefined;
  const asked = askedOf(prepared, wishes.batch ?? 1);
  const { gpus, sharding } = await neededGpus(asked, judgeOf(prepared, machine));
  const changes = wishes.batch === undefined ? undefined : unevenBatch(wishes.batch, gpus);
  return { ...written(gpus, true, sharding), ...(changes !== undefined && { changes }) };
}

/** As it is answered: without the trace, which is that of the plan. */
function written(gpus: number, needed: boolean, { chosen, tried }: TracedSharding): PlanSharding {
  const snippet = chosen && shardingSnippet(chosen);
  return {
    gpus,
    needed,
    ...(chosen && { chosen }),
    tried,
    ...(snippet !== undefined && { snippet }),
  };
}

/** Tells configurations that `sharedTraining` has traced, so that arithmetic skips them. */
function isShownBySharing(prepared: PreparedPlan): (configuration: Configuration) => boolean {
  const { precision, optimizer } = askedOf(prepared, 1).workload;
  return (one) =>
    one.precision === precision &&
    one.optimizer === optimizer &&
    one.offload === 'none' &&
    one.loraRank === undefined &&
    one.quantization === undefined;
}

function askedOf(
  { request: { wishes, facts } }: PreparedPlan,
  batch: number,
): Omit<ShardingRequest, 'gpus'> {
  const workload: Workload = {
    mode: 'train',
    batch,
    sequence: wishes.sequence,
    image: wishes.image,
    targetSequence: wishes.targetSequence,
    optimizer: wishes.optimizer ?? 'adamw-fused',
    precision: wishes.precision ?? (facts.bfloat16 ? 'amp-bf16' : 'amp-fp16'),
    checkpointing: false,
  };
  return {
    workload,
    parameters: facts.parameters,
    capacityBytes: facts.capacityBytes,
    tokensPerSample: facts.tokensPerSample,
    checkpointing: checkpointingOf(wishes.checkpointing, facts.transformers),
  };
}

function judgeOf({ source, gpu }: PreparedPlan, machine: AnswerMachine) {
  return (workload: Workload) => estimate({ source, workload, gpu, method: 'trace' }, machine);
}

/** Returns the checkpointing to try; a fixed one stays. */
function checkpointingOf(
  wish: boolean | undefined,
  can: boolean,
): ShardingRequest['checkpointing'] {
  if (wish !== undefined) return wish ? 'always' : 'never';
  return can ? 'if-needed' : 'never';
}

/** Tells requests that are traced; settings the user fixed otherwise are not about sharing. */
function isTraced({ source, method, maxBatch, request }: PreparedPlan): boolean {
  const { mode, loraRank, quantization, zero, offload, mayChange } = request.wishes;
  const open = [loraRank, quantization, zero, offload, mayChange].every((one) => one === undefined);
  return mode === 'train' && open && !maxBatch && method !== 'formula' && source.kind === 'path';
}

/**
 * Describes a batch that GPUs cannot share evenly: each GPU takes as many samples as the others.
 * Undefined if they can.
 *
 * @example
 * unevenBatch(20, 8); // '... a step takes 24 samples, 3 on each GPU. With 10 GPUs it stays 20.'
 */
export function unevenBatch(batch: number, gpus: number): string | undefined {
  if (batch % gpus === 0) return undefined;
  const each = Math.ceil(batch / gpus);
  let even = gpus + 1;
  while (even <= batch && batch % even !== 0) even += 1;
  const kept = even > batch ? '' : ` With ${even} GPUs it stays ${batch}.`;
  return `A batch of ${batch} cannot be split evenly over ${gpus} GPUs: a step takes ${each * gpus} samples, ${each} on each GPU.${kept}`;
}

/** The judge is what `estimate` answers; where that takes a trace, the formula guides it. */
function planEstimators(
  {
    source,
    gpu,
    method,
  }: {
    readonly source: ModelSource;
    readonly gpu: Gpu;
    readonly method: EstimateMethod;
  },
  machine: AnswerMachine,
): PlanEstimators {
  const { environment, folder, signal, wording, work } = machine;
  let count = 0;
  const machineFor = (workload: Workload): AnswerMachine => {
    count += 1;
    const { onProgress } = machine;
    if (onProgress === undefined) return machine;
    const what = `Estimate ${count}: ${described(workload)}`;
    onProgress(what);
    return {
      ...machine,
      onProgress: (text: string, share?: number) => onProgress(`${what}. ${text}`, share),
    };
  };
  return {
    judge: (workload) =>
      estimate(
        { source: sourceFor(source, workload), workload, gpu, method },
        machineFor(workload),
      ),
    guide:
      source.kind !== 'path' || method === 'formula'
        ? undefined
        : async (workload) => {
            try {
              const request = { source, workload, gpu, method: 'formula' } as const;
              return await estimate(request, { environment, folder, signal, wording, work });
            } catch (error) {
              // A model that no formula knows is planned by its traces alone.
              if (error instanceof Failure && error.kind !== 'interrupted') return undefined;
              throw error;
            }
          },
  };
}

function described({ batch, precision, checkpointing, loraRank }: Workload): string {
  const more = [
    ...(checkpointing ? ['checkpointing'] : []),
    ...(loraRank === undefined ? [] : ['LoRA']),
  ];
  return [`batch ${batch}`, precision, ...more].join(', ');
}

/**
 * The plan whose settings are those of the method that was chosen, with the others that were traced beside
 * it. Where nothing fits, that of the last; undefined where that was not traced.
 *
 * @example
 * planOfSharding(await chooseSharding(request, judge), facts)?.settings.zero; // 3 with fsdp2
 */
export function planOfSharding(
  { chosen, tried, estimate: estimated }: TracedSharding,
  facts: PlanFacts,
): Plan | undefined {
  const taken = chosen ?? tried.at(-1);
  if (taken === undefined || estimated === undefined) return undefined;
  const mode = 'train';
  const plain = { ...configurationOf(taken), checkpointing: false, zero: 0 } as const;
  const unit = costOf(plain, taken.batch * taken.accumulation, 1, { mode, facts, unit: 1 });
  const shown = (option: ShardingOption, peak: Estimate['peak']) => {
    const needs = { estimate: { ...estimated, peak }, hostBytes: 0 };
    const { batch, accumulation, fit } = option;
    const configuration = configurationOf(option);
    const { estimate: _, ...one } = optionOf(
      { configuration, batch, accumulation, needs },
      { mode, facts, unit },
    );
    return { ...one, fits: fit !== 'no', surely: fit === 'surely' };
  };
  const { method: _, peak: _peak, ...answer } = shown(taken, estimated.peak);
  const others = tried.flatMap((option): PlanOption[] =>
    option === taken || option.peak === undefined ? [] : [shown(option, option.peak)],
  );
  return { ...answer, estimate: estimated, alternatives: others.toSorted(byWorth), notes: [] };
}

/** How transformers is told to load the model as planned. */
export interface PlanLoading {
  readonly preset: QuantizationPreset;
  readonly memory: QuantizationMemory;
  readonly computeDtype: ComputeDtype;
  readonly arguments: FromPretrainedArguments;
}

/** Absent where the weights are neither quantized nor to be kept for later. */
export function loadingOf(
  plan: Plan,
  request: PlanRequest,
  host: { readonly hostBytes: number },
  save = false,
): PlanLoading | undefined {
  const { quantization } = plan.settings;
  if (!plan.fits || (quantization === 'none' && !save)) return undefined;
  const preset = quantization === 'none' ? 'fp16' : quantization;
  const computeDtype = request.facts.bfloat16 ? 'bfloat16' : 'float16';
  const memory = memoryOf(preset, plan, request, host.hostBytes);
  return {
    preset,
    memory,
    computeDtype,
    arguments: bitsAndBytesArguments(preset, memory, computeDtype),
  };
}

/** Memory for the weights, beside all other needs of the job. */
function memoryOf(
  preset: QuantizationPreset,
  { estimate: planned, hostBytes, settings }: Plan,
  { facts, wishes, budget }: PlanRequest,
  hostTotalBytes: number,
): QuantizationMemory {
  const weights = planned.breakdown.find(({ part }) => part === 'weights')?.bytes ?? 0;
  const choice =
    facts.parameters === undefined
      ? undefined
      : choosePreset({
          parameters: facts.parameters,
          freeBytes: budget.memoryBytes,
          hostFreeBytes: Math.max(hostTotalBytes, hostBytes),
          forTraining: wishes.mode === 'train',
          workingBytes: Math.max(0, planned.peak.deviceBytes - weights),
        });
  const onOneGpu = { gpuBytes: [budget.allocatorMemoryBytes], hostBytes };
  const { gpuBytes } = choice?.preset === preset ? choice.memory : onOneGpu;
  return { gpuBytes: Array.from({ length: settings.gpus }, () => gpuBytes[0] ?? 0), hostBytes };
}
