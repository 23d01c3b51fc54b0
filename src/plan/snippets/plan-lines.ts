import type { PlanSettings } from '../fit/types.js';
import type { FromPretrainedArguments } from '../quantization/bits-and-bytes.js';
import type { ShardingOption } from '../sharding/sharding-option.js';
import type { Framework } from './formats.js';
import { planSnippet } from './plan-snippet.js';
import { shardingFormat } from './sharding-formats.js';

/** A plan, with the method by which several GPUs share the training. */
interface WrittenPlan {
  readonly fits: boolean;
  readonly settings: PlanSettings;
  readonly sharding?: { readonly needed: boolean; readonly chosen?: ShardingOption };
}

/** What to paste, and whether it is how several GPUs share the training. */
export interface PlanLines {
  readonly text: string;
  readonly isShared: boolean;
  /** What the lines cannot say, and where to say it. */
  readonly beside?: string;
}

/**
 * A plan as a framework takes it: how several GPUs share the training where they were asked for, or where
 * one is not enough; else its settings.
 *
 * @example
 * planLines('deepspeed', plan).beside; // where to switch checkpointing on
 */
export function planLines(
  framework: Framework,
  { fits, settings, sharding }: WrittenPlan,
  loading?: FromPretrainedArguments,
): PlanLines {
  const chosen = sharding?.needed && fits ? undefined : sharding?.chosen;
  const shared = chosen && shardingFormat(framework, chosen);
  const { checkpointing } = shared === undefined ? settings : (chosen ?? settings);
  return {
    text: shared ?? planSnippet(framework, settings, loading),
    isShared: shared !== undefined,
    ...(framework === 'deepspeed' && checkpointing && { beside: checkpointingElsewhere }),
  };
}

/** DeepSpeed's own setting reaches only models that call its functions for it. */
const checkpointingElsewhere =
  "The plan recomputes activations, which DeepSpeed's file cannot switch on for models of transformers: call model.gradient_checkpointing_enable() before deepspeed.initialize, or set gradient_checkpointing=True in TrainingArguments.";
