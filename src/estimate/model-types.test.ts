import { describe, expect, it } from 'vitest';
import { MiB } from '../units/bytes.js';
import { findGpu } from './cards/gpus.js';
import { modelSizes, modelTypes, typeEstimate } from './model-source.js';
import type { Workload } from './types.js';

const gpu = findGpu('h200');
const workload: Workload = {
  mode: 'infer',
  batch: 8,
  precision: 'bf16',
  optimizer: 'adamw',
  checkpointing: false,
};

describe('typeEstimate', () => {
  it('takes the table at a batch of 8, and scales with the batch', () => {
    const large = { type: 'transformer', size: 'large' } as const;
    expect(typeEstimate(large, workload, gpu).peak.reservedBytes).toBe(8000 * MiB);
    const four = typeEstimate(large, { ...workload, batch: 32 }, gpu);
    expect(four.peak.reservedBytes).toBe(32_000 * MiB);
    const small = { type: 'rnn', size: 'small' } as const;
    expect(typeEstimate(small, workload, gpu).peak.reservedBytes).toBe(1500 * MiB);
  });

  it('takes two and a half times that in training', () => {
    const answer = typeEstimate(
      { type: 'cnn', size: 'medium' },
      { ...workload, mode: 'train' },
      gpu,
    );
    expect(answer.peak.reservedBytes).toBe(5000 * MiB);
    expect(answer.method).toBe('table');
  });

  it('says what it is, and where the table was extended', () => {
    const { notes } = typeEstimate({ type: 'cnn', size: 'xlarge' }, workload, gpu);
    expect(notes[0]).toContain('rule of thumb');
    expect(notes.join(' ')).toContain('no xlarge cnn');
    const known = typeEstimate({ type: 'transformer', size: 'xlarge' }, workload, gpu);
    expect(known.notes.join(' ')).not.toContain('no xlarge');
  });

  it('is whole and wide for every type, size and batch', () => {
    for (const type of modelTypes) {
      for (const size of modelSizes) {
        for (const mode of ['train', 'infer'] as const) {
          const given = { ...workload, mode, batch: 7 };
          const { peak, interval, breakdown } = typeEstimate({ type, size }, given, gpu);
          expect(breakdown.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(peak.deviceBytes);
          expect(breakdown.every(({ bytes }) => Number.isSafeInteger(bytes))).toBe(true);
          expect(interval.highBytes).toBeGreaterThan(10 * interval.lowBytes);
        }
      }
    }
  });
});
