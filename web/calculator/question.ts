import {
  type Optimizer,
  optimizers,
  type Precision,
  precisions,
} from '../../src/estimate/types.js';
import { shellWords } from '../../src/units/words.js';
import type { Draft } from '../src/state/forms/form-values.js';

/** The question that the page opens with: one that many people ask. */
export const firstDraft = {
  model: 'llama-3-8b',
  config: '',
  mode: 'train',
  gpu: '4090',
  batch: '1',
  seq: '2048',
  image: '',
  precision: '',
  optimizer: '',
  lora: '16',
  quantization: '',
  checkpointing: 'yes',
  gpus: '',
  parallel: '',
  engine: '',
  maxModelLen: '',
  kvPrecision: '',
} as const;

export type CalculatorField = keyof typeof firstDraft;
export type CalculatorDraft = Draft<CalculatorField>;

const fields = Object.keys(firstDraft).filter((key): key is CalculatorField => key in firstDraft);

/** A pasted config longer than this makes no link that every program takes. */
const longestConfig = 12_000;

/**
 * The fields that a link keeps.
 *
 * @example
 * draftFrom('#model=gpt2&batch=8').batch; // '8'
 */
export function draftFrom(hash: string): CalculatorDraft {
  const kept = new URLSearchParams(hash.replace(/^#/, ''));
  const draft: Record<CalculatorField, string> = { ...firstDraft };
  if ([...kept].length === 0) return draft;
  for (const field of fields) draft[field] = (kept.get(field) ?? '').slice(0, longestConfig);
  if (draft.mode === '') draft.mode = firstDraft.mode;
  return draft;
}

/** The fragment that `draftFrom` reads. */
export function hashOf(draft: CalculatorDraft): string {
  const kept = new URLSearchParams();
  for (const field of fields) {
    const value = draft[field].trim();
    if (value !== '' && value.length <= longestConfig) kept.set(field, value);
  }
  return `#${kept.toString()}`;
}

/** Fields that each mode has, beside the model and the card. */
const asked: Readonly<Record<string, readonly CalculatorField[]>> = {
  train: [
    ...(['batch', 'seq', 'image', 'precision', 'optimizer', 'lora', 'quantization'] as const),
    ...(['checkpointing', 'gpus', 'parallel'] as const),
  ],
  infer: ['batch', 'seq', 'image', 'precision', 'quantization'],
  serve: ['engine', 'maxModelLen', 'precision', 'quantization', 'kvPrecision'],
};

/** The fields of the chosen mode, in the order in which the page has them. */
export function askedFields({ mode }: CalculatorDraft): readonly CalculatorField[] {
  return asked[mode] ?? [];
}

/**
 * The command that answers the same, by a trace where Python and torch are there.
 *
 * @example
 * commandOf(draftFrom('#model=gpt2&gpu=4090&batch=8')); // 'plimsoll estimate gpt2 --gpu 4090 --batch 8'
 */
export function commandOf(draft: CalculatorDraft): string {
  const ofMode = askedFields(draft);
  // Ways over several GPUs say nothing of one.
  const one = Number(draft.gpus || 1) < 2;
  const all: readonly CalculatorField[] = ['gpu', ...ofMode];
  const words = all.flatMap((field) => {
    const value = draft[field].trim();
    if (value === '' || (one && (field === 'gpus' || field === 'parallel'))) return [];
    if (field === 'checkpointing') return value === 'yes' ? ['--checkpointing'] : [];
    return [`--${optionNames[field] ?? field}`, value];
  });
  const model = draft.config.trim() === '' ? draft.model.trim() : 'config.json';
  const mode = draft.mode === 'train' ? [] : ['--mode', draft.mode];
  const parallel = !one && ofMode.includes('parallel') && draft.parallel === '';
  const spread = parallel ? ['--parallel', 'ddp'] : [];
  return shellWords(['plimsoll', 'estimate', model, ...mode, ...words, ...spread]);
}

const optionNames: Partial<Record<CalculatorField, string>> = {
  maxModelLen: 'max-model-len',
  kvPrecision: 'kv-precision',
};

export function precisionOf(text: string): Precision | undefined {
  return precisions.find((one) => one === text);
}

export function optimizerOf(text: string): Optimizer | undefined {
  return optimizers.find((one) => one === text);
}
