import { describe, expect, it } from 'vitest';
import { savingChanges } from './savings.js';
import type { Workload } from './types.js';

const workload: Workload = {
  mode: 'train',
  batch: 8,
  sequence: 1024,
  precision: 'fp32',
  optimizer: 'adamw',
  checkpointing: false,
};
const settings = (parts: Partial<Workload>) =>
  savingChanges({ ...workload, ...parts }).map((change) => change.settings);

describe('savingChanges', () => {
  it('names one setting at a time, and none that is set already', () => {
    expect(settings({})).toEqual([
      { checkpointing: true },
      { optimizer: 'adamw-fused' },
      { optimizer: 'adamw-8bit' },
      { optimizer: 'sgd' },
      { loraRank: 16 },
      { precision: 'amp-bf16' },
      { precision: 'bf16' },
      { batch: 4 },
      { sequence: 512 },
    ]);
    const frugal = { batch: 1, sequence: 64, precision: 'bf16', optimizer: 'sgd' } as const;
    expect(settings({ ...frugal, checkpointing: true, loraRank: 8, quantization: 'int4' })).toEqual(
      [],
    );
  });

  it('offers to Adam what it offers to AdamW', () => {
    expect(settings({ optimizer: 'adam' })).toContainEqual({ optimizer: 'adam-fused' });
    expect(settings({ optimizer: 'adam-fused' })).toContainEqual({ optimizer: 'adamw-8bit' });
    expect(settings({ optimizer: 'rmsprop' })).not.toContainEqual({ optimizer: 'adamw-8bit' });
  });

  it('goes from autocast to bf16 throughout', () => {
    expect(settings({ precision: 'amp-fp16' })).toContainEqual({ precision: 'bf16' });
    expect(settings({ precision: 'amp-fp16' })).not.toContainEqual({ precision: 'amp-bf16' });
  });

  it('leaves out for inference what only training has, and quantizes', () => {
    expect(settings({ mode: 'infer', precision: 'bf16' })).toEqual([
      { quantization: 'int8' },
      { quantization: 'int4' },
      { batch: 4 },
      { sequence: 512 },
    ]);
  });

  it('quantizes for training only where adapters are trained', () => {
    expect(settings({ loraRank: 8 })).toContainEqual({ quantization: 'int4' });
    expect(settings({})).not.toContainEqual({ quantization: 'int4' });
    expect(settings({ loraRank: 8, quantization: 'int8' })).toContainEqual({
      quantization: 'int4',
    });
  });
});
