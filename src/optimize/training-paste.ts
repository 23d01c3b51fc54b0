import type { PlanSettings } from '../plan/fit/types.js';
import { MiB } from '../units/bytes.js';
import { shellWords } from '../units/shell-words.js';
import type { LoadingSettings } from './loading-settings.js';
import { type TrainingPaste, trainerOptimizer } from './training-answer.js';

const environmentLine = 'source <(plimsoll env --mode production --format shell)';

/** What to paste for a model that is trained by a program of one's own. */
export function modelPaste(
  settings: PlanSettings,
  loading: LoadingSettings,
  memoryBytes: number,
): TrainingPaste {
  const { batch, accumulation } = settings;
  const effective = batch * accumulation;
  return {
    shell: [
      environmentLine,
      `plimsoll run --memory ${wholeMiB(memoryBytes)} --batch-size ${effective} -- python train.py --batch-size {batch_size} --accumulate {accumulation}`,
    ].join('\n'),
    python: pythonOf(settings),
    trainer: trainerOf(settings, loading),
  };
}

/** What to paste for a program that was traced: its own command. */
export function programPaste(command: readonly string[], memoryBytes: number): TrainingPaste {
  return {
    shell: `${environmentLine}\nplimsoll run --memory ${wholeMiB(memoryBytes)} -- ${shellWords(command)}`,
    python: [
      'import plimsoll',
      'plimsoll.optimize(model, optimizer)',
      'data = plimsoll.loader(dataset, batch_size=BATCH, shuffle=True)',
    ].join('\n'),
  };
}

function pythonOf(settings: PlanSettings): string {
  const { batch, accumulation, checkpointing, precision } = settings;
  const type = precision.endsWith('fp16') ? 'torch.float16' : 'torch.bfloat16';
  const autocast = precision.startsWith('amp-') ? type : 'False';
  return [
    'import plimsoll, torch',
    `plimsoll.optimize(model, optimizer, checkpoint=${truth(checkpointing)}, autocast=${autocast})`,
    `step = plimsoll.recovering(model, optimizer, lambda batch: model(**batch).loss, microbatch=${batch})`,
    `for batch in plimsoll.loader(dataset, batch_size=${batch * accumulation}, shuffle=True):`,
    '    step(batch)',
  ].join('\n');
}

function trainerOf(settings: PlanSettings, loading: LoadingSettings): string {
  const { batch, accumulation, checkpointing, precision, optimizer } = settings;
  const optim = trainerOptimizer(optimizer);
  const given = [
    `per_device_train_batch_size=${batch}`,
    `gradient_accumulation_steps=${accumulation}`,
    `gradient_checkpointing=${truth(checkpointing)}`,
    ...(precision === 'amp-bf16' ? ['bf16=True'] : []),
    ...(precision === 'amp-fp16' ? ['fp16=True'] : []),
    ...(optim === undefined ? [] : [`optim="${optim}"`]),
    `dataloader_num_workers=${loading.workers}`,
    `dataloader_pin_memory=${truth(loading.pinMemory)}`,
    `dataloader_persistent_workers=${truth(loading.persistentWorkers)}`,
  ];
  return `TrainingArguments(\n${given.map((one) => `    ${one},\n`).join('')})`;
}

function truth(value: boolean): string {
  return value ? 'True' : 'False';
}

function wholeMiB(bytes: number): string {
  return `${Math.floor(bytes / MiB)}MiB`;
}
