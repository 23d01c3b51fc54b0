import type { PlanSettings } from '../fit/types.js';
import { asPython, type FromPretrainedArguments } from '../quantization/bits-and-bytes.js';
import { pythonCall } from './python-text.js';

/** Adapters as the estimate traced them: on every linear layer, scaled by twice their rank. */
export function peftSnippet(
  rank: number,
  { checkpointing }: PlanSettings,
  loading: FromPretrainedArguments | undefined,
): string {
  const quantized = loading?.quantization_config !== undefined;
  const names = quantized
    ? 'LoraConfig, get_peft_model, prepare_model_for_kbit_training'
    : 'LoraConfig, get_peft_model';
  return [
    ...(loading === undefined ? [] : [asPython(loading).trimEnd(), '']),
    `from peft import ${names}`,
    '',
    ...pythonCall('config = LoraConfig', [], {
      r: rank,
      lora_alpha: 2 * rank,
      target_modules: 'all-linear',
      task_type: 'CAUSAL_LM',
    }),
    ...(quantized
      ? pythonCall('model = prepare_model_for_kbit_training', ['model'], {
          use_gradient_checkpointing: checkpointing,
        })
      : []),
    'model = get_peft_model(model, config)',
  ].join('\n');
}
