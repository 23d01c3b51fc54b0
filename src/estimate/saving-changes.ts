import type { Workload } from './types.js';

/** One setting changed, and how a person would say it. */
export interface SettingChange {
  readonly change: string;
  readonly settings: Partial<Workload>;
}

/** Adapters of this rank are what most people train. */
const usualLoraRank = 16;
/** A shorter sequence than this is no model's job. */
const shortestSequence = 64;

/**
 * The changes of a workload that may save memory: one setting at a time, the gentlest first.
 *
 * @example
 * savingChanges({ ...workload, batch: 8 })[0]; // { change: 'half the batch', settings: { batch: 4 } }
 */
export function savingChanges(workload: Workload): readonly SettingChange[] {
  const { mode, batch, sequence } = workload;
  const changes: SettingChange[] = mode === 'train' ? trainingChanges(workload) : [];
  changes.push(...precisionChanges(workload));
  if (mode === 'infer' || workload.loraRank !== undefined) {
    changes.push(...quantizationChanges(workload));
  }
  if (batch > 1) changes.push({ change: 'half the batch', settings: { batch: batch >> 1 } });
  if (sequence !== undefined && sequence >= 2 * shortestSequence) {
    changes.push({ change: 'half the sequence', settings: { sequence: sequence >> 1 } });
  }
  return changes;
}

function trainingChanges({ checkpointing, optimizer, loraRank }: Workload): SettingChange[] {
  const changes: SettingChange[] = [];
  if (!checkpointing) {
    changes.push({ change: 'gradient checkpointing', settings: { checkpointing: true } });
  }
  if (optimizer === 'adamw' || optimizer === 'adam') {
    changes.push({ change: 'the fused optimizer', settings: { optimizer: `${optimizer}-fused` } });
  }
  if (/^adamw?(-fused)?$/.test(optimizer)) {
    changes.push({ change: 'an 8-bit optimizer', settings: { optimizer: 'adamw-8bit' } });
  }
  if (optimizer !== 'sgd') {
    changes.push({ change: 'plain SGD', settings: { optimizer: 'sgd' } });
  }
  if (loraRank === undefined) {
    changes.push({ change: 'LoRA adapters only', settings: { loraRank: usualLoraRank } });
  }
  return changes;
}

function precisionChanges({ mode, precision, quantization }: Workload): SettingChange[] {
  if (quantization !== undefined || precision === 'bf16' || precision === 'fp16') return [];
  const pure: SettingChange = { change: 'all in bf16', settings: { precision: 'bf16' } };
  if (precision !== 'fp32' || mode === 'infer') return [pure];
  return [{ change: 'autocast to bf16', settings: { precision: 'amp-bf16' } }, pure];
}

function quantizationChanges({ quantization }: Workload): SettingChange[] {
  if (quantization !== undefined && quantization !== 'fp16' && quantization !== 'int8') return [];
  const four: SettingChange = { change: 'weights in 4 bits', settings: { quantization: 'int4' } };
  if (quantization === 'int8') return [four];
  return [{ change: 'weights in 8 bits', settings: { quantization: 'int8' } }, four];
}
