import { describe, expect, it } from 'vitest';
import { describeConfig } from '../../model/config/describe-config.js';
import { findGpu } from '../cards/gpus.js';
import type { Workload } from '../types.js';
import { formulaEstimate } from './formula-estimate.js';

const description = describeConfig({ model_type: 'gpt2' }, 'gpt2');
const gpu = findGpu('h200');
const workload: Workload = {
  mode: 'train',
  batch: 8,
  sequence: 512,
  precision: 'fp32',
  optimizer: 'adamw',
  checkpointing: false,
};
const peak = (more: Partial<Workload>) =>
  formulaEstimate({ path: 'gpt2', description }, { ...workload, ...more }, gpu).peak.allocatedBytes;

describe('accumulation', () => {
  it('keeps the gradients while the next batch runs', () => {
    // Traced with transformers: 8385154048 without, 8887094272 with accumulation.
    expect(Math.abs(peak({}) / 8_385_154_048 - 1)).toBeLessThan(0.0001);
    expect(Math.abs(peak({ accumulation: 4 }) / 8_887_094_272 - 1)).toBeLessThan(0.0001);
  });

  it('makes no difference from the second batch on, and none in inference', () => {
    expect(peak({ accumulation: 2 })).toBe(peak({ accumulation: 64 }));
    expect(peak({ accumulation: 1 })).toBe(peak({}));
    expect(peak({ mode: 'infer', accumulation: 8 })).toBe(peak({ mode: 'infer' }));
  });
});
