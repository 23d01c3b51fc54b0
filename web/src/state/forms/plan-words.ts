import type { PlanOption, PlanSettings } from '../../../../src/plan/fit/types.js';

/** Each setting with its name; what is not in use is left out. */
export function settingRows(settings: PlanSettings): readonly (readonly [string, string])[] {
  const { batch, accumulation, checkpointing, precision, quantization } = settings;
  const { offload, optimizer, lora, gpus, zero } = settings;
  const rows: readonly (readonly [string, string | number | false])[] = [
    ['Batch', batch],
    ['Accumulation', accumulation],
    ['Precision', precision],
    ['Optimizer', optimizer !== 'none' && optimizer],
    ['Checkpointing', checkpointing ? 'yes' : 'no'],
    ['Quantization', quantization !== 'none' && quantization],
    ['Offload', offload !== 'none' && offload],
    ['LoRA rank', lora !== 'none' && lora],
    ['Devices', gpus > 1 && gpus],
    ['ZeRO stage', zero > 0 && zero],
  ];
  return rows.flatMap(([name, value]) => (value === false ? [] : [[name, String(value)] as const]));
}

/** Settings in one line: `8 × 4, amp-bf16, adamw-fused, checkpointing`. */
export function optionWords({ settings }: Pick<PlanOption, 'settings'>): string {
  const { batch, accumulation, checkpointing, precision, quantization } = settings;
  const { offload, optimizer, lora, zero } = settings;
  return [
    `${batch} × ${accumulation}`,
    precision,
    optimizer !== 'none' && optimizer,
    checkpointing && 'checkpointing',
    quantization !== 'none' && quantization,
    offload !== 'none' && `${offload} offloaded`,
    lora !== 'none' && `LoRA ${lora}`,
    zero > 0 && `ZeRO ${zero}`,
  ]
    .filter((part) => part !== false)
    .join(', ');
}
