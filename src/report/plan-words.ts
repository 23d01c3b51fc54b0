import type { Plan, PlanOption, PlanSettings } from '../plan/fit/types.js';
import { formatBytes } from '../units/bytes.js';
import { count } from './words.js';

/** What a plan is held against. */
export interface PlanBudgetWords {
  /** What PyTorch's allocator may hold. */
  readonly memoryBytes: number;
  readonly contextBytes: number;
}

/** Of the allocator alone, as the budget counts it. */
export function neededBytes(
  { peak }: Pick<PlanOption, 'peak'>,
  { contextBytes }: PlanBudgetWords,
): number {
  return Math.max(0, peak.leastCapacityBytes - contextBytes);
}

export interface PlanVerdict {
  readonly fits: 'yes' | 'barely' | 'no';
  readonly sentence: string;
}

export function planVerdict(plan: Plan, budget: PlanBudgetWords): PlanVerdict {
  const room = formatBytes(budget.memoryBytes);
  const needed = formatBytes(neededBytes(plan.estimate, budget));
  if (!plan.fits) {
    return {
      fits: 'no',
      sentence: `Nothing fits into ${room}: what comes nearest needs ${needed}.`,
    };
  }
  const slower =
    plan.relativeCost > 1.005 ? `; a sample takes ${costWords(plan.relativeCost)} as long` : '';
  const sentence = `It fits into ${room} and needs ${needed} of it${slower}.`;
  return { fits: plan.surely ? 'yes' : 'barely', sentence };
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
 * A way to run in one line, without its batch.
 *
 * @example
 * wayWords(settings); // 'amp-bf16, adamw-fused, checkpointing'
 */
export function wayWords(settings: PlanSettings): string {
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
export function batchWords({ batch, accumulation }: PlanSettings): string {
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
