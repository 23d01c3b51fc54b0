import type { PlanSettings } from '../fit/types.js';
import { pythonCall } from './python-text.js';
import { loadedIn } from './trainer.js';

export const lightningPrecisions = {
  fp32: '32-true',
  bf16: 'bf16-true',
  fp16: '16-true',
  'amp-bf16': 'bf16-mixed',
  'amp-fp16': '16-mixed',
} as const;

export function lightningSnippet(settings: PlanSettings): string {
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

export function accelerateSnippet(settings: PlanSettings): string {
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
export function torchrunSnippet({ batch, accumulation, gpus }: PlanSettings): string {
  return [
    '# train.py and the names of its options stand for yours.',
    `torchrun --standalone --nproc-per-node=${gpus} train.py --batch-size ${batch} --accumulation ${accumulation}`,
  ].join('\n');
}
