import type { Estimate } from '../estimate/types.js';
import type { Plan, PlanOption, PlanSettings } from '../plan/fit/types.js';
import { GiB, MiB } from '../units/bytes.js';

export const budget = { memoryBytes: 24 * GiB, contextBytes: 758 * MiB };

const settings: PlanSettings = {
  batch: 8,
  accumulation: 4,
  checkpointing: true,
  precision: 'amp-bf16',
  quantization: 'none',
  offload: 'none',
  optimizer: 'adamw-fused',
  lora: 'none',
  gpus: 1,
  zero: 0,
};

function peakOf(gibibytes: number): Estimate['peak'] {
  const reservedBytes = gibibytes * GiB;
  const deviceBytes = reservedBytes + budget.contextBytes;
  return {
    allocatedBytes: reservedBytes - GiB,
    reservedBytes,
    deviceBytes,
    leastCapacityBytes: deviceBytes,
  };
}

const estimate: Estimate = {
  method: 'trace',
  peak: peakOf(20),
  interval: { lowBytes: 19 * GiB, highBytes: 21 * GiB, confidence: 0.95 },
  breakdown: [
    { part: 'weights', bytes: 5 * GiB },
    { part: 'optimizer', bytes: 10 * GiB },
    { part: 'activations', bytes: 5 * GiB },
    { part: 'context', bytes: budget.contextBytes },
  ],
  notes: ['Estimated from a run on the meta device.'],
};

const shared = { hostBytes: 0, concession: 'speed', givesUp: [] } as const;

const alternatives: readonly PlanOption[] = [
  {
    ...shared,
    settings: { ...settings, precision: 'bf16', checkpointing: false },
    fits: true,
    surely: true,
    method: 'formula',
    peak: peakOf(15),
    relativeCost: 0.91,
    concession: 'numerics',
    givesUp: ['weights and states of the optimizer in 16 bits'],
  },
  {
    ...shared,
    settings: { ...settings, batch: 32, accumulation: 1, checkpointing: false },
    fits: false,
    surely: false,
    method: 'trace',
    peak: peakOf(40),
    relativeCost: 1,
  },
];

/** A plan that splits the batch and computes forward twice, beside one that fits and one that does not. */
export const plan: Plan = {
  ...shared,
  settings,
  fits: true,
  surely: true,
  relativeCost: 1.37,
  estimate,
  alternatives,
  notes: ['One way could not be estimated: <b>none</b>.'],
};
