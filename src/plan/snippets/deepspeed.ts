import type { PlanSettings } from '../fit/types.js';

/** The file that DeepSpeed, and the Trainer with `deepspeed=`, read. */
export function deepspeedConfig(settings: PlanSettings): object {
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
