import { Failure } from '../../failure.js';
import type { PlanSettings } from '../fit/types.js';
import { asPython, type FromPretrainedArguments } from '../quantization/bits-and-bytes.js';
import type { Framework } from './recognise.js';
import { loadedIn, pythonCall, trainerSnippet } from './trainer.js';

/** Whether the plan trains adapters and the lines of a framework cannot make them. */
export function hasAdaptersApart(framework: Framework, { lora }: PlanSettings): boolean {
  return lora !== 'none' && (framework === 'deepspeed' || framework === 'torchrun');
}

/**
 * The settings of a plan, as a framework takes them; lines of Python begin with the adapters, where the plan
 * has some. What only another framework can do is a `Failure`.
 *
 * @example
 * planSnippet('accelerate', plan.settings); // from accelerate import Accelerator ...
 */
export function planSnippet(
  framework: Framework,
  settings: PlanSettings,
  loading?: FromPretrainedArguments,
): string {
  if (settings.optimizer === 'none') {
    throw unfit(
      `The plan is for inference, and ${framework} is for training.`,
      'Add --train, or leave --format out.',
    );
  }
  const { lora } = settings;
  const adapters = lora === 'none' ? '' : `${peftSnippet(lora, settings, loading)}\n\n`;
  switch (framework) {
    case 'trainer':
      return adapters + trainerSnippet(settings);
    case 'lightning':
      return adapters + lightningSnippet(settings);
    case 'accelerate':
      return adapters + accelerateSnippet(settings);
    case 'deepspeed':
      return JSON.stringify(deepspeedConfig(settings), undefined, 2);
    case 'torchrun':
      return torchrunSnippet(settings);
    case 'peft':
    default:
      if (lora === 'none') {
        throw unfit(
          'The plan trains the whole model, so there are no adapters to write down.',
          'Ask for adapters with --lora 16, or choose another --format.',
        );
      }
      return peftSnippet(lora, settings, loading);
  }
}

function unfit(fact: string, next: string): Failure {
  return new Failure({ kind: 'input', code: 'format-unfit', fact, next });
}

/** Adapters as the estimate traced them: on every linear layer, scaled by twice their rank. */
function peftSnippet(
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

export const lightningPrecisions = {
  fp32: '32-true',
  bf16: 'bf16-true',
  fp16: '16-true',
  'amp-bf16': 'bf16-mixed',
  'amp-fp16': '16-mixed',
} as const;

function lightningSnippet(settings: PlanSettings): string {
  const { batch, accumulation, precision, gpus, zero, offload } = settings;
  const onHost = offload === 'optimizer';
  const stage = zero > 0 ? zero : onHost ? 2 : 0;
  const strategy = stage > 0 ? `deepspeed_stage_${stage}${onHost ? '_offload' : ''}` : 'ddp';
  const call = pythonCall('trainer = L.Trainer', [], {
    devices: gpus,
    strategy: stage > 0 || gpus > 1 ? strategy : undefined,
    precision: lightningPrecisions[precision],
    accumulate_grad_batches: accumulation,
  });
  return ['import lightning as L', '', `batch_size = ${batch}  # of your DataLoader`, ...call]
    .concat(checkpointed(settings))
    .join('\n');
}

function accelerateSnippet(settings: PlanSettings): string {
  const { batch, accumulation, precision } = settings;
  const call = pythonCall('accelerator = Accelerator', [], {
    mixed_precision: mixedPrecisionOf(precision),
    gradient_accumulation_steps: accumulation,
  });
  return [
    ...loadedIn(precision),
    'from accelerate import Accelerator',
    '',
    `batch_size = ${batch}  # of your DataLoader`,
    ...call,
    ...checkpointed(settings),
  ].join('\n');
}

/** As accelerate names it. */
export function mixedPrecisionOf(precision: PlanSettings['precision']): string {
  return precision.startsWith('amp-') ? precision.slice('amp-'.length) : 'no';
}

function checkpointed({ checkpointing }: PlanSettings): string[] {
  return checkpointing ? ['# and before training: model.gradient_checkpointing_enable()'] : [];
}

/** `train.py` and its options stand for those of the person. */
function torchrunSnippet({ batch, accumulation, gpus }: PlanSettings): string {
  return [
    '# train.py and the names of its options stand for yours.',
    `torchrun --standalone --nproc-per-node=${gpus} train.py --batch-size ${batch} --accumulation ${accumulation}`,
  ].join('\n');
}

/** The file that DeepSpeed, and the Trainer with `deepspeed=`, read. */
function deepspeedConfig(settings: PlanSettings): object {
  const { batch, accumulation, gpus, precision, zero, offload } = settings;
  const onHost = offload === 'optimizer';
  // States on the host are a part of ZeRO there, from its first stage on.
  const stage = Math.max(zero, onHost ? 1 : 0);
  return {
    train_batch_size: batch * accumulation * gpus,
    train_micro_batch_size_per_gpu: batch,
    gradient_accumulation_steps: accumulation,
    ...(precision.endsWith('bf16') && { bf16: { enabled: true } }),
    ...(precision.endsWith('fp16') && { fp16: { enabled: true } }),
    zero_optimization: {
      stage,
      ...(onHost && { offload_optimizer: { device: 'cpu', pin_memory: true } }),
    },
  };
}
