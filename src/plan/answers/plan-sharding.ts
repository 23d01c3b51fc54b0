import { estimate } from '../../estimate/estimate.js';
import type { Workload } from '../../estimate/types.js';
import type { Plan } from '../fit/types.js';
import {
  chooseSharding,
  neededGpus,
  type Sharding,
  type ShardingRequest,
} from '../sharding/choose-sharding.js';
import { shardingSnippet } from '../snippets/sharding.js';
import type { AnswerMachine } from './machine.js';
import type { PreparedPlan } from './plan-request.js';

/** How several GPUs share a training, traced, with what to paste. */
export interface PlanSharding extends Sharding {
  readonly gpus: number;
  /** Whether the number of GPUs is an answer, and not what was asked for. */
  readonly needed: boolean;
  readonly snippet?: string;
}

/**
 * Traces the methods to share a training out: over the GPUs that were named, or over as many as are
 * needed where one is not enough for training the whole model. Undefined where that is not asked.
 */
export async function planSharding(
  plan: Plan,
  prepared: PreparedPlan,
  machine: AnswerMachine,
): Promise<PlanSharding | undefined> {
  if (!isTraced(prepared)) return undefined;
  const { source, gpu, request } = prepared;
  const { wishes, facts } = request;
  const workload: Workload = {
    mode: 'train',
    batch: wishes.batch ?? facts.gpus,
    sequence: wishes.sequence,
    image: wishes.image,
    targetSequence: wishes.targetSequence,
    optimizer: wishes.optimizer ?? 'adamw-fused',
    precision: wishes.precision ?? (facts.bfloat16 ? 'amp-bf16' : 'amp-fp16'),
    checkpointing: false,
  };
  const asked = {
    workload,
    parameters: facts.parameters,
    capacityBytes: facts.capacityBytes,
    checkpointing: checkpointingOf(wishes.checkpointing, facts.transformers),
  };
  const judge = (one: Workload) =>
    estimate({ source, workload: one, gpu, method: 'trace' }, machine);
  if (facts.gpus > 1) {
    const sharding = await chooseSharding({ ...asked, gpus: facts.gpus }, judge);
    return written(facts.gpus, false, sharding);
  }
  if (plan.fits && plan.settings.lora === 'none') return undefined;
  const found = await neededGpus(asked, judge);
  return written(found.gpus, true, found.sharding);
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

function written(gpus: number, needed: boolean, sharding: Sharding): PlanSharding {
  const { chosen } = sharding;
  const snippet = chosen && shardingSnippet(chosen);
  return { gpus, needed, ...sharding, ...(snippet !== undefined && { snippet }) };
}
