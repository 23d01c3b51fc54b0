import { assumedContext } from '../../estimate/cards/gpu-table.js';
import { type QuantizationPreset, quantizationPresets } from '../../estimate/types.js';
import { Failure } from '../../failure.js';
import { checkArguments, object, truth } from '../../units/arguments.js';
import { formatBytes } from '../../units/bytes.js';
import type { QuantizationMemory } from './bits-and-bytes.js';
import {
  fp16Bytes,
  keptBytes,
  type ModelWeights,
  presetFacts,
  stateBytes,
  type TrainingMethod,
} from './presets.js';

export interface ChooseOptions extends ModelWeights {
  /** Free bytes of the GPU; 0 if there is none. */
  readonly freeBytes: number;
  readonly hostFreeBytes: number;
  readonly forTraining: boolean;
  /** Bytes of the job beside weights and their states, if known: activations, context. */
  readonly workingBytes?: number | undefined;
}

/** A preset that was considered, with the bytes it would take. All of them are estimated. */
export interface PresetOption {
  readonly preset: QuantizationPreset;
  readonly training: TrainingMethod | 'none';
  readonly fits: boolean;
  readonly gpuBytes: number;
  readonly hostBytes: number;
}

export interface PresetChoice {
  readonly preset: QuantizationPreset | 'none';
  readonly training: TrainingMethod | 'none';
  readonly reason: string;
  /** For `bitsAndBytesArguments`: what the weights may take. */
  readonly memory: QuantizationMemory;
  /** All that were considered, the chosen one too, the most precise first. */
  readonly alternatives: readonly PresetOption[];
}

/** On a GPU the most precise first; the host is precise as well, but far slower. */
const order: readonly QuantizationPreset[] = [
  'fp16',
  ...quantizationPresets.filter((preset) => presetFacts[preset].quantized),
  'cpu',
];

/** Activations, KV cache and buffers: a share of the weights in 16 bits, where nothing is known. */
const workingShare = { inference: 0.1, training: 0.25 };
/** transformers takes a tenth off what it is told of quantized models, for buffers while it loads. */
const loadingShare = 0.9;

/**
 * The most precise preset that fits, by the size of the model, the memory that is free, and whether
 * it is for training.
 *
 * @example
 * const choice = choosePreset({
 *   parameters: 22e9, freeBytes: 24e9, hostFreeBytes: 64e9, forTraining: false,
 * });
 * choice.preset; // 'int4'
 */
export function choosePreset(options: ChooseOptions): PresetChoice {
  checkOptions(options);
  const alternatives = order.flatMap((preset) => optionsOf(preset, options));
  const chosen = alternatives.find(({ fits }) => fits);
  const { preset = 'none', training = 'none' } = chosen ?? {};
  return {
    preset,
    training,
    reason: choiceReason(chosen, alternatives, options),
    memory: memoryFor(preset, options),
    alternatives,
  };
}

function optionsOf(preset: QuantizationPreset, options: ChooseOptions): PresetOption[] {
  const ways = options.forTraining ? presetFacts[preset].training : (['none'] as const);
  return ways.map((training) => {
    const { gpuBytes, hostBytes } = bytesOf(preset, training, options);
    const fits = gpuBytes <= options.freeBytes && hostBytes <= options.hostFreeBytes;
    return { preset, training, fits, gpuBytes, hostBytes };
  });
}

function bytesOf(
  preset: QuantizationPreset,
  training: TrainingMethod | 'none',
  options: ChooseOptions,
): { gpuBytes: number; hostBytes: number } {
  const states = stateBytes(preset, options, training);
  const { weights } = presetFacts[preset];
  if (weights === 'both') return splitBytes(states, options);
  const bytes = states + workingOf(options);
  return weights === 'gpu' ? { gpuBytes: bytes, hostBytes: 0 } : { gpuBytes: 0, hostBytes: bytes };
}

/**
 * As many layers on the GPU as fit beside what must be there; the others wait on the host in 16
 * bits. Where not even the first part fits, the GPU's share says so.
 */
function splitBytes(
  states: number,
  options: ChooseOptions,
): { gpuBytes: number; hostBytes: number } {
  const fixed = keptBytes(options) + workingOf(options);
  const quantized = states - keptBytes(options);
  const onGpu = Math.max(0, Math.min(quantized, options.freeBytes - fixed));
  const left = quantized === 0 ? 0 : 1 - onGpu / quantized;
  const hostBytes = Math.ceil((fp16Bytes(options) - keptBytes(options)) * left);
  return { gpuBytes: fixed + onGpu, hostBytes };
}

function workingOf(options: ChooseOptions): number {
  const { workingBytes, forTraining } = options;
  if (workingBytes !== undefined) return workingBytes;
  const share = forTraining ? workingShare.training : workingShare.inference;
  return Math.ceil(assumedContext.highBytes + fp16Bytes(options) * share);
}

function memoryFor(
  preset: QuantizationPreset | 'none',
  options: ChooseOptions,
): QuantizationMemory {
  const { freeBytes, hostFreeBytes: hostBytes } = options;
  if (preset === 'none' || presetFacts[preset].weights === 'host')
    return { gpuBytes: [], hostBytes };
  const room = freeBytes - workingOf(options);
  const usable = presetFacts[preset].quantized ? Math.floor(room / loadingShare) : room;
  return { gpuBytes: [Math.min(freeBytes, usable)], hostBytes };
}

/** More parameters than any model has, with sums that stay exact. */
const maxParameters = 1e14;
/** A pebibyte: above any machine's memory. */
const maxBytes = 2 ** 50;

function checkOptions(options: ChooseOptions): void {
  checkArguments('choosePreset', { options }, { options: object });
  checkArguments('choosePreset', { ...options }, { forTraining: truth });
  const { parameters, keptParameters = 0, weightBytesFp16 = 0, workingBytes = 0 } = options;
  const { freeBytes, hostFreeBytes } = options;
  const bad = [
    ...Object.entries({ parameters, keptParameters }).filter(outside(maxParameters)),
    ...Object.entries({ weightBytesFp16, workingBytes, freeBytes, hostFreeBytes }).filter(
      outside(maxBytes),
    ),
    ...(parameters === 0 ? [['parameters', 0] as const] : []),
  ];
  for (const [name, value] of bad) {
    throw new Failure({
      kind: 'input',
      code: 'bad-model-size',
      fact: `${name} cannot be ${value}.`,
      next: 'Give sizes in bytes, and the number of parameters of the model.',
    });
  }
}

function outside(most: number): (entry: readonly [string, number]) => boolean {
  return ([, value]) => !(typeof value === 'number' && value >= 0 && value <= most);
}

/** Why this preset, in words for people. */
function choiceReason(
  chosen: PresetOption | undefined,
  all: readonly PresetOption[],
  { freeBytes, hostFreeBytes, forTraining }: ChooseOptions,
): string {
  const purpose = forTraining ? 'training' : 'inference';
  const free = `${formatBytes(freeBytes)} of the GPU and ${formatBytes(hostFreeBytes)} of the host are free`;
  if (chosen === undefined) {
    const least = Math.min(...all.filter(({ preset }) => preset !== 'cpu').map(totalOf));
    return `Nothing fits for ${purpose}: ${free}; the smallest needs ${formatBytes(least)} (estimated).`;
  }
  const { preset, training } = chosen;
  const bytes = [
    ...(chosen.gpuBytes > 0 ? [`${formatBytes(chosen.gpuBytes)} of the GPU`] : []),
    ...(chosen.hostBytes > 0 ? [`${formatBytes(chosen.hostBytes)} of the host`] : []),
  ].join(' and ');
  const better = all[all.indexOf(chosen) - 1];
  const method = training === 'lora' ? ' with LoRA' : '';
  const best = better === undefined ? 'the most precise there is' : 'the most precise that fits';
  const next =
    better === undefined ? '' : ` ${nameOf(better)} would need ${formatBytes(totalOf(better))}.`;
  const place = preset === 'cpu' ? 'Only the host has room' : `It is ${best}`;
  return `${place} for ${purpose}${method}: it needs about ${bytes} (estimated); ${free}.${next}`;
}

function totalOf({ gpuBytes, hostBytes }: PresetOption): number {
  return gpuBytes + hostBytes;
}

function nameOf({ preset, training }: PresetOption): string {
  return training === 'none' ? preset : `${preset} (${training})`;
}
