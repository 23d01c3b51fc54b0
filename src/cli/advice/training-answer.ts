import type { Estimate, Saving as EstimateSaving } from '../../estimate/types.js';
import type { PlanSettings } from '../../plan/fit/types.js';
import { formatBytes, MiB } from '../../units/bytes.js';
import { shellWords } from '../../units/words.js';
import { type Advice, bytesSaved, unknownSaving } from './advice.js';

/** The settings of a training; what a program decides itself is not known. */
export type TrainingSettings = {
  readonly [Name in keyof PlanSettings]: PlanSettings[Name] | 'unknown';
};

/** How to train: the settings, what they need, and what to paste. */
export interface TrainingAnswer {
  /** The model or the program, as it was named. */
  readonly of: string;
  readonly fits: boolean;
  readonly surely: boolean;
  readonly settings: TrainingSettings;
  readonly peakBytes: number;
  readonly capacityBytes: number;
  readonly method: Estimate['method'];
  readonly loading: LoadingSettings;
  readonly paste: TrainingPaste;
  readonly notes: readonly string[];
}

interface TrainingPaste {
  /** For a terminal. */
  readonly shell: string;
  /** For a loop of one's own. */
  readonly python: string;
  /** For the Trainer of transformers; absent where the settings are the program's own. */
  readonly trainer?: string;
}

/** What a job takes is a whole of its own: savings are shares of it. */
const jobOf = ({ peak }: Pick<Estimate, 'peak'>) =>
  ({ id: 'the job', totalBytes: peak.leastCapacityBytes, provenance: 'measured' }) as const;

/**
 * What single settings save beside the workload as it was asked for. Each stands alone: what two of
 * them save together is another figure.
 */
export function savingsAdvice(
  before: Pick<Estimate, 'savings' | 'peak'>,
  chosen: PlanSettings,
  options: (settings: EstimateSaving['settings']) => string,
): readonly Advice[] {
  return (before.savings ?? []).map(({ change, settings, savesBytes }) => {
    const used = isChosen(settings, chosen) ? 'in the settings above' : 'not in the settings above';
    return {
      code: 'training-setting',
      fact: `${change[0]?.toUpperCase()}${change.slice(1)} (${options(settings)}), ${used}.`,
      steps: [pythonOf(settings)],
      saves: bytesSaved(savesBytes, jobOf(before), 'estimated'),
    };
  });
}

function isChosen(settings: EstimateSaving['settings'], chosen: PlanSettings): boolean {
  const { loraRank, ...others } = settings;
  const named: Readonly<Record<string, unknown>> = {
    ...others,
    ...(loraRank !== undefined && { lora: loraRank }),
  };
  return Object.entries(named).every(([name, value]) => Reflect.get(chosen, name) === value);
}

/** The line of Python that makes one change. */
function pythonOf(settings: EstimateSaving['settings']): string {
  const { checkpointing, precision, batch, sequence, optimizer, loraRank, quantization } = settings;
  if (checkpointing === true) return 'plimsoll.optimize(model, optimizer, checkpoint=True)';
  if (precision !== undefined) return precisionLine(precision);
  if (batch !== undefined) {
    return `step = plimsoll.recovering(model, optimizer, loss, microbatch=${batch})  # the effective batch stays`;
  }
  if (sequence !== undefined) return `tokenizer.model_max_length = ${sequence}`;
  if (quantization !== undefined) return `model = plimsoll.load(name, preset="${quantization}")`;
  if (loraRank !== undefined) return `peft.LoraConfig(r=${loraRank}, target_modules="all-linear")`;
  if (optimizer?.endsWith('-fused')) return 'plimsoll.optimize(model, optimizer, fuse=True)';
  return `TrainingArguments(optim="${trainerOptimizer(optimizer ?? '') ?? optimizer}")`;
}

function precisionLine(precision: string): string {
  const type = precision.endsWith('fp16') ? 'torch.float16' : 'torch.bfloat16';
  if (precision.startsWith('amp-')) return `plimsoll.optimize(model, optimizer, autocast=${type})`;
  return precision === 'fp32' ? 'model.float()' : `model.to(${type})`;
}

/** The name that the Trainer of transformers has for an optimizer of ours. */
function trainerOptimizer(name: string): string | undefined {
  const names: Readonly<Record<string, string>> = {
    adamw: 'adamw_torch',
    'adamw-fused': 'adamw_torch_fused',
    'adamw-8bit': 'adamw_bnb_8bit',
    adafactor: 'adafactor',
    sgd: 'sgd',
  };
  return names[name];
}

/** Parts of a program's peak that changes to it make smaller; the parts are traced. */
export function partsAdvice(estimate: Pick<Estimate, 'breakdown' | 'peak'>): readonly Advice[] {
  return parts.flatMap(({ part, words, share, step }): Advice[] => {
    const bytes = estimate.breakdown.find((one) => one.part === part)?.bytes ?? 0;
    const saves = bytesSaved(bytes * share, jobOf(estimate), 'estimated');
    if (saves.kind !== 'bytes' || saves.share === 'unknown' || saves.share < leastShare) return [];
    const fact = `${words} ${formatBytes(bytes)} of the peak.`;
    return [{ code: `training-${part}`, fact, steps: [step], saves: { ...saves, atMost: true } }];
  });
}

/** Less of a job is not worth a change to a program. */
const leastShare = 0.01;

const parts = [
  {
    part: 'activations',
    words: 'Activations take',
    share: 1,
    step: 'plimsoll.optimize(model, optimizer)  # checkpointing and bfloat16',
  },
  {
    part: 'optimizer',
    words: 'States of the optimizer take',
    // Two states of 4 bytes become two of 1 byte.
    share: 0.75,
    step: 'bitsandbytes.optim.AdamW8bit(model.parameters())  # in place of AdamW',
  },
  {
    part: 'fragmentation',
    words: 'Fragmentation takes',
    share: 1,
    step: "export PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True'",
  },
] as const;

/** Data loading as an advice of its own: what it saves is known only when it runs. */
export function loadingAdvice({ workers, reasons }: LoadingSettings): Advice {
  return {
    code: 'data-loading',
    fact: reasons.join(' '),
    steps: [
      workers === 0
        ? 'data = plimsoll.loader(dataset, batch_size=BATCH, shuffle=True)'
        : 'data = plimsoll.loader(dataset, batch_size=BATCH, shuffle=True)  # measures, and takes as many workers as help',
    ],
    saves: unknownSaving,
  };
}

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
    python: pastedPython(settings),
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

function pastedPython(settings: PlanSettings): string {
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

interface LoadingFacts {
  readonly cores: number;
  readonly hostFreeBytes: number;
  readonly gpus: number;
  /** What the configuration fixes. */
  readonly fixed: {
    readonly [Name in Exclude<keyof LoadingSettings, 'reasons'>]?:
      | LoadingSettings[Name]
      | undefined;
  };
}

/** What a torch DataLoader is to be told. */
export interface LoadingSettings {
  readonly workers: number;
  readonly pinMemory: boolean;
  readonly persistentWorkers: boolean;
  /** Batches that each worker prepares ahead; 0 without workers. */
  readonly prefetch: number;
  readonly reasons: readonly string[];
}

/** As `plimsoll.loader` decides: half of the free memory, at most, is for workers. */
const memoryShare = 0.5;
/** What a worker that imported torch holds alone; estimated, since it was not started. */
const workerBytes = 400 * MiB;
const usualPrefetch = 2;

/**
 * How to load data, as far as the machine tells. How long a batch and a step take is not known before
 * the program runs: `plimsoll.loader` measures them and needs fewer workers where that is enough.
 *
 * @example
 * loadingSettings({ cores: 8, hostFreeBytes: 2 ** 35, gpus: 1, fixed: {} }).workers; // 7
 */
export function loadingSettings({
  cores,
  hostFreeBytes,
  gpus,
  fixed,
}: LoadingFacts): LoadingSettings {
  const wanted = Math.max(0, cores - 1);
  const affordable = Math.floor((memoryShare * hostFreeBytes) / workerBytes);
  const workers = fixed.workers ?? Math.min(wanted, affordable);
  const pinMemory = fixed.pinMemory ?? gpus > 0;
  return {
    workers,
    pinMemory,
    persistentWorkers: workers > 0 && (fixed.persistentWorkers ?? true),
    prefetch: workers > 0 ? (fixed.prefetch ?? usualPrefetch) : 0,
    reasons: [
      workersReason(workers, wanted, cores, fixed.workers !== undefined),
      pinMemory
        ? 'Pinned memory: copies to the card run beside it.'
        : 'No pinned memory: there is no CUDA card here.',
    ],
  };
}

function workersReason(workers: number, wanted: number, cores: number, isFixed: boolean): string {
  if (isFixed) return `${counted(workers)}, as the configuration says.`;
  if (workers < wanted) {
    return `${counted(workers)} instead of ${wanted}: each takes about ${formatBytes(workerBytes)} of the host.`;
  }
  if (workers === 0) return 'No workers: there is one core, which the training needs.';
  return `At most ${counted(workers)}, one for each of ${cores} cores but one.`;
}

function counted(workers: number): string {
  return workers === 1 ? '1 worker' : `${workers} workers`;
}
