import { estimate } from '../../estimate/estimate.js';
import type { Workload } from '../../estimate/types.js';
import type { Configuration, Plan } from '../fit/types.js';
import { chooseSharding, neededGpus } from '../sharding/choose-sharding.js';
import { unevenBatch } from '../sharding/even-batch.js';
import type { Sharding, ShardingRequest, TracedSharding } from '../sharding/sharding-option.js';
import { shardingSnippet } from '../snippets/sharding.js';
import type { AnswerMachine } from './machine.js';
import type { PreparedPlan } from './plan-request.js';

/** How several GPUs share a training, traced, with what to paste. */
export interface PlanSharding extends Sharding {
  readonly gpus: number;
  /** Whether the number of GPUs is an answer, and not what was asked for. */
  readonly needed: boolean;
  /** What changes of what was asked for; absent where nothing does. */
  readonly changes?: string;
  readonly snippet?: string;
}

/** For how many samples a rank settings are chosen where no batch was named; then it grows. */
const defaultBatch = 8;

/** Whether GPUs were named, and how they share a training is traced. */
export function isShared(prepared: PreparedPlan): boolean {
  return prepared.request.facts.gpus > 1 && isTraced(prepared);
}

/** Traces the methods to share a training out over the GPUs that were named. */
export function sharedTraining(
  prepared: PreparedPlan,
  machine: AnswerMachine,
): Promise<TracedSharding> {
  const { gpus } = prepared.request.facts;
  const { batch } = prepared.request.wishes;
  const asked = { ...askedOf(prepared, batch ?? defaultBatch * gpus), gpus };
  return chooseSharding({ ...asked, grows: batch === undefined }, judgeOf(prepared, machine));
}

/**
 * Over how many GPUs a training is shared out where one is not enough for training the whole model, and
 * how. Undefined where that is not asked.
 */
export async function neededSharding(
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
export function written(
  gpus: number,
  needed: boolean,
  { chosen, tried }: TracedSharding,
): PlanSharding {
  const snippet = chosen && shardingSnippet(chosen);
  return {
    gpus,
    needed,
    ...(chosen && { chosen }),
    tried,
    ...(snippet !== undefined && { snippet }),
  };
}

/** What `sharedTraining` has traced, so that arithmetic has nothing to say about it. */
export function isShownBySharing(
  prepared: PreparedPlan,
): (configuration: Configuration) => boolean {
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

/** What a person fixed stays. */
function checkpointingOf(
  wish: boolean | undefined,
  can: boolean,
): ShardingRequest['checkpointing'] {
  if (wish !== undefined) return wish ? 'always' : 'never';
  return can ? 'if-needed' : 'never';
}

/** What a person fixed otherwise is no question of sharing. */
function isTraced({ source, method, maxBatch, request }: PreparedPlan): boolean {
  const { mode, loraRank, quantization, zero, offload, mayChange } = request.wishes;
  const open = [loraRank, quantization, zero, offload, mayChange].every((one) => one === undefined);
  return mode === 'train' && open && !maxBatch && method !== 'formula' && source.kind === 'path';
}
