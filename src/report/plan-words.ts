import { sureBytes } from '../plan/fit/fit.js';
import type { Concession, Plan, PlanOption, PlanSettings } from '../plan/fit/types.js';
import type { Sharding, ShardingOption } from '../plan/sharding/sharding-option.js';
import { formatBytes } from '../units/bytes.js';
import { count } from './words.js';

/** What a plan is held against. */
export interface PlanBudgetWords {
  /** What the device offers, the CUDA context included. */
  readonly memoryBytes: number;
  readonly contextBytes: number;
}

interface PlanVerdict {
  readonly fits: 'yes' | 'barely' | 'no';
  readonly sentence: string;
}

/**
 * The headline of a plan. It says "It fits" only where it surely does with nothing changed but speed;
 * else what is changed, or what may be missing, comes first.
 */
export function planVerdict(
  plan: Pick<Plan, 'fits' | 'surely' | 'estimate' | 'givesUp' | 'concession' | 'relativeCost'>,
  budget: PlanBudgetWords,
): PlanVerdict {
  const { estimate, givesUp, concession } = plan;
  const room = formatBytes(budget.memoryBytes);
  const needed = formatBytes(estimate.peak.leastCapacityBytes);
  if (!plan.fits) {
    return {
      fits: 'no',
      sentence: `Nothing fits into ${room}: what comes nearest needs ${needed}.`,
    };
  }
  const slower = slowerWords(plan.relativeCost);
  const missing = sureBytes(estimate) - budget.memoryBytes;
  const lack = `it may lack up to ${formatBytes(missing)} by the upper end of its interval`;
  if (concession !== 'speed') {
    const changed = `It does not fit into ${room} without a change to ${changedWords[concession]}: ${givesUp.join('; ')}.`;
    const then = plan.surely
      ? `With that it needs ${needed}${slower}.`
      : `With that it should fit; ${lack}. It needs ${needed} by the estimate.`;
    return { fits: 'barely', sentence: `${changed} ${then}` };
  }
  if (!plan.surely) {
    return {
      fits: 'barely',
      sentence: `It should fit into ${room}; ${lack}. It needs ${needed} by the estimate.`,
    };
  }
  return { fits: 'yes', sentence: `It fits into ${room} and needs ${needed} of it${slower}.` };
}

const changedWords: Readonly<Record<Exclude<Concession, 'speed'>, string>> = {
  numerics: 'the numerics',
  training: 'the training',
  'weights in 8 bits': 'the weights',
  'weights in 4 bits': 'the weights',
};

function slowerWords(cost: number): string {
  if (cost <= 1.005) return '';
  const than = 'the fastest settings without a limit';
  return cost < 2
    ? `; ${Math.round((cost - 1) * 100)} % slower per sample than ${than}`
    : `; a sample takes ${costWords(cost)} as long as with ${than}`;
}

/** Each setting with its value, for people; what is not in use is left out. */
export function settingRows(
  settings: PlanSettings,
): (readonly [name: string, value: string, more: string])[] {
  const { batch, accumulation, gpus, zero } = settings;
  const training = settings.optimizer !== 'none';
  const effective = batch * accumulation * gpus;
  const passes = training ? 'accumulation' : 'passes';
  const rows: (readonly [string, string, string, shown?: boolean])[] = [
    ['batch', String(batch), gpus > 1 ? 'on each GPU, at a time' : 'at a time'],
    [
      passes,
      String(accumulation),
      `${count(effective, 'sample')} ${training ? 'a step' : 'in all'}`,
    ],
    ['precision', settings.precision, ''],
    ['optimizer', settings.optimizer, '', training],
    ['checkpointing', settings.checkpointing ? 'yes' : 'no', '', training],
    ['lora', String(settings.lora), 'rank of the adapters', settings.lora !== 'none'],
    ['quantization', settings.quantization, ''],
    ['offload', settings.offload, settings.offload === 'none' ? '' : 'waits on the host'],
    ['gpus', String(gpus), '', gpus > 1],
    ['zero', String(zero), sharedWords[zero], gpus > 1],
  ];
  return rows.flatMap(([name, value, more, shown = true]) => (shown ? [[name, value, more]] : []));
}

const sharedWords = {
  0: 'nothing is shared out',
  1: 'optimizer states are shared out',
  2: 'optimizer states and gradients are shared out',
  3: 'weights and all states are shared out',
} as const;

/**
 * Settings in one line, without the batch.
 *
 * @example
 * optionWords(settings); // 'amp-bf16, adamw-fused, checkpointing'
 */
export function optionWords(settings: PlanSettings): string {
  const { precision, optimizer, checkpointing, lora, quantization, offload, gpus, zero } = settings;
  return [
    precision,
    ...(optimizer === 'none' ? [] : [optimizer]),
    ...(checkpointing ? ['checkpointing'] : []),
    ...(lora === 'none' ? [] : [`LoRA ${lora}`]),
    ...(quantization === 'none' ? [] : [quantization]),
    ...(offload === 'optimizer' ? ['optimizer on the host'] : []),
    ...(gpus > 1 ? [zero === 0 ? 'without ZeRO' : `ZeRO ${zero}`] : []),
  ].join(', ');
}

/** `8 x 4`: samples at a time, and how often before a step. */
export function batchWords({
  batch,
  accumulation,
}: Pick<PlanSettings, 'batch' | 'accumulation'>): string {
  return accumulation === 1 ? String(batch) : `${batch} x ${accumulation}`;
}

export function costWords(cost: number): string {
  return `${cost >= 10 ? cost.toFixed(0) : cost.toFixed(2)} x`;
}

export function fitWords({
  fits,
  surely,
}: Pick<PlanOption, 'fits' | 'surely'>): PlanVerdict['fits'] {
  if (!fits) return 'no';
  return surely ? 'yes' : 'barely';
}

/** What stands over the settings of a plan. */
export function settingsHeading({ fits }: Pick<Plan, 'fits'>): string {
  return fits ? 'Set this' : 'With this';
}

/** What stands over what else there is. */
export function othersHeading({ alternatives, settings }: Plan): string {
  const own = optionWords(settings);
  return alternatives.every((one) => optionWords(one.settings) === own)
    ? 'Other batches that were tried'
    : 'What else there is';
}

export const optionHeads = ['fits', 'batch', 'needs', 'time', 'how'] as const;

/** An option as the cells of a row, below `optionHeads`. */
export function optionCells(
  option: PlanOption,
  { method: usual }: Plan['estimate'],
): readonly [PlanVerdict['fits'], string, string, string, string] {
  const method = option.method === usual ? '' : ` (by ${option.method})`;
  return [
    fitWords(option),
    batchWords(option.settings),
    formatBytes(option.peak.leastCapacityBytes),
    costWords(option.relativeCost),
    `${optionWords(option.settings)}${method}`,
  ];
}

/** A training that several GPUs share. */
export interface SharedOut extends Sharding {
  readonly gpus: number;
  /** Whether the number of GPUs is an answer, and not what was asked for. */
  readonly needed: boolean;
  /** What changes of what was asked for. */
  readonly changes?: string;
  /** What to paste. */
  readonly snippet?: string;
}

const fits = { surely: 'fits', tightly: 'may fit', no: 'too large' } as const;

/** How several GPUs share a training: what was tried, the fastest that fits, and what to paste. */
export function shardingText(shared: SharedOut): string {
  const { gpus, needed, chosen, changes, tried, snippet } = shared;
  const head = headOf(gpus, needed, chosen !== undefined);
  const verdict =
    chosen === undefined
      ? ['Nothing of this fits.']
      : [`Take ${nameOf(chosen)}${passesOf(chosen)}.`];
  const paste = snippet === undefined ? [] : ['', snippet];
  const changed = changes === undefined ? [] : [changes];
  return ['', head, ...tried.map(line), ...verdict, ...changed, ...paste].join('\n');
}

function headOf(gpus: number, needed: boolean, enough: boolean): string {
  if (!needed) return `On ${gpus} GPUs, by trace, the fastest first (with the CUDA context):`;
  return enough
    ? `To train the whole model ${gpus} such GPUs are needed. By trace, the fastest first (with the CUDA context):`
    : `To train the whole model ${gpus} such GPUs are not enough. By trace, each needs (with the CUDA context):`;
}

function line(option: ShardingOption): string {
  const bytes = option.peak === undefined ? '' : formatBytes(option.peak.leastCapacityBytes);
  const [name, fit] = [nameOf(option).padEnd(34), fits[option.fit].padEnd(10)];
  const passes =
    option.accumulation === 1 ? '' : `, ${option.accumulation} passes of ${option.batch} a step`;
  return `  ${name} ${fit} ${bytes.padStart(9)}  ${option.givesUp}${passes}`;
}

function nameOf({ parallel, checkpointing }: ShardingOption): string {
  const kept = parallel.reshard === false ? ' --no-reshard' : '';
  return `${parallel.way}${kept}${checkpointing ? ' --checkpointing' : ''}`;
}

function passesOf({ batch, accumulation }: ShardingOption): string {
  return accumulation === 1
    ? ''
    : `, with ${accumulation} passes of ${batch} on each GPU in a step`;
}
