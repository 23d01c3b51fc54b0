import { Failure } from '../failure.js';
import { MiB } from '../units/bytes.js';
import { type EstimateMachine, type EstimateRequest, estimate } from './estimate.js';
import { inThisThread } from './estimate-work.js';
import type { ModelSource } from './model-source.js';
import type { Estimate, Saving, Workload } from './types.js';

/** How to find out: by the formula's difference, or by estimating every change as well. */
export type SavingsBasis = Saving['basis'];

/** A change below this share of the answer is lost in what the answer may be off by. */
const leastShare = 0.005;

/**
 * Finds the savings of other settings in least capacity, the largest first; a change that saves
 * none is left out, whatever it does to the peak. By formula this costs next to nothing, and needs
 * a model that the formula knows; by trace each change takes some seconds, and those that cannot be
 * traced are asked of the formula. Changes without an answer are left out.
 *
 * @example
 * const found = await estimate(request, machine);
 * const [first] = await findSavings(request, found, machine, 'formula');
 * first?.change; // 'gradient checkpointing'
 */
export async function findSavings(
  request: EstimateRequest,
  base: Estimate,
  machine: EstimateMachine,
  basis: SavingsBasis,
): Promise<readonly Saving[]> {
  const changes = await answerable(savingChanges(request.workload), request, machine);
  const traced = basis === 'trace' ? await byTrace(request, base, changes, machine) : [];
  const others = changes.filter(({ change }) => !traced.some((one) => one.change === change));
  const savings = [...traced, ...(await byFormula(request, base, others, machine))];
  const least = Math.max(MiB, base.peak.leastCapacityBytes * leastShare);
  return savings
    .filter(({ savesBytes }) => savesBytes >= least)
    .toSorted((a, b) => b.savesBytes - a.savesBytes);
}

/** Settings that a source fixes, whatever the options say. */
const fixed: Readonly<Record<ModelSource['kind'] | 'gguf', readonly (keyof Workload)[]>> = {
  path: [],
  gguf: ['precision', 'quantization'],
  torchvision: ['sequence', 'checkpointing', 'quantization'],
  script: ['batch', 'sequence', 'checkpointing', 'quantization'],
  parameters: [],
  type: [],
};

async function answerable<Change extends SettingChange>(
  changes: readonly Change[],
  { source }: EstimateRequest,
  machine: EstimateMachine,
): Promise<readonly Change[]> {
  // A rule of thumb knows no settings.
  if (source.kind === 'type') return [];
  const kind = (await isGguf(source, machine)) ? 'gguf' : source.kind;
  return changes.filter(({ settings }) => !fixed[kind].some((name) => name in settings));
}

async function isGguf(
  source: ModelSource,
  { work = inThisThread, signal }: EstimateMachine,
): Promise<boolean> {
  if (source.kind !== 'path') return false;
  const { model } = await work({ kind: 'read', path: source.path }, signal);
  return model.weights?.format === 'gguf';
}

async function byTrace(
  request: EstimateRequest,
  base: Estimate,
  changes: readonly SettingChange[],
  machine: EstimateMachine,
): Promise<Saving[]> {
  const savings: Saving[] = [];
  for (const [index, { change, settings }] of changes.entries()) {
    const about = `What ${change} would save (${index + 1} of ${changes.length})`;
    machine.onProgress?.(about);
    const onProgress =
      machine.onProgress &&
      ((text: string, share?: number) => machine.onProgress?.(`${about}: ${text}`, share));
    const changed = { ...changedRequest(request, settings), method: 'trace' } as const;
    const found = await orNothing(estimate(changed, { ...machine, onProgress }));
    if (found === undefined) continue;
    const { leastCapacityBytes } = found.peak;
    const savesBytes = base.peak.leastCapacityBytes - leastCapacityBytes;
    savings.push({ change, settings, savesBytes, leastCapacityBytes, basis: 'trace' });
  }
  return savings;
}

async function byFormula(
  request: EstimateRequest,
  base: Estimate,
  changes: readonly SettingChange[],
  machine: EstimateMachine,
): Promise<Saving[]> {
  const found = await changedByFormula(request, base, changes, machine);
  return found.map(({ change, settings, leastCapacityBytes }) => {
    const savesBytes = base.peak.leastCapacityBytes - leastCapacityBytes;
    return { change, settings, savesBytes, leastCapacityBytes, basis: 'formula' };
  });
}

/** The need of a changed workload, on the scale of the base estimate. */
type Changed<Change> = Change & {
  readonly leastCapacityBytes: number;
  readonly weightBytes: number;
};

/**
 * Estimates the same job with other settings: the difference by the formula, on the scale of
 * `base`. Changes that the source cannot take, or without an answer, are left out.
 *
 * @example
 * const changes = [{ change: 'weights in 4 bits', settings: { quantization: 'int4' } }];
 * const [four] = await changedByFormula(request, base, changes, machine);
 * four?.leastCapacityBytes;
 */
export async function changedByFormula<Change extends SettingChange>(
  request: EstimateRequest,
  base: Estimate,
  changes: readonly Change[],
  machine: EstimateMachine,
): Promise<readonly Changed<Change>[]> {
  const formula = { ...request, method: 'formula' } as const;
  const before = await orNothing(estimate(formula, machine));
  if (before === undefined) return [];
  // The formula may be off by some percent; what it says of a change is off by as much.
  const scale = base.peak.reservedBytes / before.peak.reservedBytes;
  const found: Changed<Change>[] = [];
  for (const change of await answerable(changes, request, machine)) {
    const after = await orNothing(estimate(changedRequest(formula, change.settings), machine));
    if (after === undefined) continue;
    const less = before.peak.leastCapacityBytes - after.peak.leastCapacityBytes;
    found.push({
      ...change,
      leastCapacityBytes: base.peak.leastCapacityBytes - Math.round(less * scale),
      weightBytes: after.breakdown.find(({ part }) => part === 'weights')?.bytes ?? 0,
    });
  }
  return found;
}

function changedRequest(request: EstimateRequest, settings: Partial<Workload>): EstimateRequest {
  return { ...request, workload: { ...request.workload, ...settings } };
}

async function orNothing(found: Promise<Estimate>): Promise<Estimate | undefined> {
  try {
    return await found;
  } catch (error) {
    if (!(error instanceof Failure) || error.kind === 'interrupted') throw error;
    return undefined;
  }
}

/** One setting changed, and how a person would say it. */
export interface SettingChange {
  readonly change: string;
  readonly settings: Partial<Workload>;
}

/** Adapters of this rank are what most people train. */
export const usualLoraRank = 16;
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
