import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { readModelConfig } from '../model/config/read-config.js';
import type { ModelDescription } from '../model/model.js';
import { checkInput, inputNotes } from './estimate.js';
import type { Workload } from './types.js';
import { callWording } from './wording.js';

const config = (name: string) =>
  readModelConfig(
    fileURLToPath(new URL(`../../bench/truth/configs/${name}.json`, import.meta.url)),
  );
const gpt2 = config('gpt2');
const unknown: ModelDescription = {
  family: 'unknown',
  modelType: 'new',
  parameters: 'unknown',
  notes: [],
};
const workload: Workload = {
  mode: 'train',
  batch: 1,
  precision: 'fp32',
  optimizer: 'sgd',
  checkpointing: false,
};

describe('checkInput', () => {
  it('asks for the sequence where tokens go in', () => {
    const check = () => checkInput(gpt2, workload, true, callWording);
    expect(check).toThrow(expect.objectContaining({ kind: 'input', code: 'no-sequence' }));
    expect(() => checkInput(gpt2, { ...workload, sequence: 8 }, true, callWording)).not.toThrow();
  });

  it('takes the image that the config names', () => {
    expect(() => checkInput(config('vit-base'), workload, true, callWording)).not.toThrow();
  });

  it('wants either of an unknown model, where it is traced', () => {
    const check = () => checkInput(unknown, workload, true, callWording);
    expect(check).toThrow('Neither sequence nor image was given.');
    expect(() => checkInput(unknown, { ...workload, image: 224 }, true, callWording)).not.toThrow();
    expect(() => checkInput(unknown, workload, false, callWording)).not.toThrow();
  });

  it('refuses to train quantized weights, whatever the family', () => {
    const quantized: Workload = { ...workload, sequence: 8, quantization: 'int4' };
    for (const model of [gpt2, unknown]) {
      expect(() => checkInput(model, quantized, true, callWording)).toThrow('cannot be trained');
      expect(() =>
        checkInput(model, { ...quantized, loraRank: 8 }, true, callWording),
      ).not.toThrow();
    }
  });
});

describe('inputNotes', () => {
  it('warns of more tokens than the model has places for', () => {
    expect(inputNotes(gpt2, { ...workload, sequence: 1024 })).toEqual([]);
    expect(inputNotes(gpt2, { ...workload, sequence: 1025 })).toEqual([
      'The model has places for 1024 tokens, fewer than 1025: it would fail when run.',
    ]);
    expect(inputNotes(config('llama-2-7b'), { ...workload, sequence: 100_000 })).toEqual([]);
    expect(inputNotes(unknown, { ...workload, sequence: 100_000 })).toEqual([]);
  });
});
