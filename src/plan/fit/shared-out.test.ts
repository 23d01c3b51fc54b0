import { describe, expect, it } from 'vitest';
import type { Part } from '../../estimate/types.js';
import { facts, fakeEstimate } from './estimates-for-tests.js';
import { backwardBytes, onOneGpu } from './shared-out.js';
import type { Configuration } from './types.js';

const configuration: Configuration = {
  checkpointing: false,
  precision: 'amp-bf16',
  optimizer: 'adamw-fused',
  offload: 'none',
  zero: 0,
  concession: 'speed',
  givesUp: [],
};
/** Weights and gradients 4,000 each, states 8,000, activations 200. */
const workload = { ...configuration, mode: 'train', batch: 2 } as const;
const estimate = fakeEstimate(workload);
const four = { ...facts, gpus: 4 };

function partsOf(found: { breakdown: readonly { part: Part; bytes: number }[] }) {
  return Object.fromEntries(found.breakdown.map(({ part, bytes }) => [part, bytes]));
}

describe('onOneGpu', () => {
  it('changes nothing where nothing is shared out', () => {
    expect(onOneGpu(estimate, configuration, facts)).toEqual({ estimate, hostBytes: 0 });
  });

  it('leaves the states of the optimizer on the host', () => {
    const found = onOneGpu(estimate, { ...configuration, offload: 'optimizer' }, facts);
    expect(partsOf(found.estimate)).toEqual({
      weights: 4000,
      gradients: 4000,
      activations: 200,
      context: 50,
    });
    expect(found.hostBytes).toBe(8000);
    expect(found.estimate.peak.leastCapacityBytes).toBe(estimate.peak.leastCapacityBytes - 8000);
  });

  it('needs the states once on the host with ZeRO, and once for each GPU without', () => {
    const offload = 'optimizer';
    expect(onOneGpu(estimate, { ...configuration, offload, zero: 1 }, four).hostBytes).toBe(8000);
    expect(onOneGpu(estimate, { ...configuration, offload }, four).hostBytes).toBe(32_000);
  });

  it.each([
    [1, { weights: 4000, gradients: 4000, optimizer: 2000 }],
    [2, { weights: 4000, gradients: 1000, optimizer: 2000 }],
    // A quarter, and two of ten layers that are gathered.
    [3, { weights: 1800, gradients: 1000, optimizer: 2000 }],
  ] as const)('shares out what ZeRO %i does', (zero, expected) => {
    const found = onOneGpu(estimate, { ...configuration, zero }, four, 200);
    expect(partsOf(found.estimate)).toMatchObject(expected);
  });

  it('counts the second copy of the gradients without ZeRO', () => {
    expect(partsOf(onOneGpu(estimate, configuration, four).estimate)).toMatchObject({
      temporary: 4000,
    });
  });

  it('saves no more of the gradients than the beginning of backward allows', () => {
    // There 3,000 live beside weights and states, so 1,200 of 4,000 + 200 can go.
    const found = onOneGpu(estimate, { ...configuration, zero: 2 }, four, 3000);
    expect(partsOf(found.estimate)).toMatchObject({ gradients: 2800, activations: 200 });
    // Where that is not known, nothing.
    const unknown = onOneGpu(estimate, { ...configuration, zero: 2 }, four);
    expect(partsOf(unknown.estimate)).toMatchObject({ gradients: 4000 });
  });

  it('keeps the parts in one sum with the peak, and the interval around it', () => {
    for (const zero of [0, 1, 2, 3] as const) {
      for (const offload of ['none', 'optimizer'] as const) {
        const { estimate: found } = onOneGpu(
          estimate,
          { ...configuration, zero, offload },
          four,
          500,
        );
        const sum = found.breakdown.reduce((all, { bytes }) => all + bytes, 0);
        expect(sum).toBe(found.peak.deviceBytes);
        expect(found.interval.lowBytes).toBeLessThan(found.peak.reservedBytes);
        expect(found.interval.highBytes).toBeGreaterThan(found.peak.reservedBytes);
      }
    }
  });

  it('moves as many layers to the host as must go, and no more', () => {
    const quantized = fakeEstimate({ ...workload, mode: 'infer', quantization: 'int4_double' });
    const offloaded = {
      ...configuration,
      offload: 'weights',
      quantization: 'int4_offload',
    } as const;
    const roomy = onOneGpu(quantized, offloaded, { ...facts, capacityBytes: 5000 });
    expect(roomy.hostBytes).toBe(0);
    const small = onOneGpu(quantized, offloaded, { ...facts, capacityBytes: 500 });
    const { peak, interval } = small.estimate;
    expect(peak.leastCapacityBytes + interval.highBytes - peak.reservedBytes).toBe(500);
    expect(small.hostBytes).toBeGreaterThan(3 * (quantized.peak.deviceBytes - 500));
  });
});

describe('backwardBytes', () => {
  it('is what a sample adds, by a batch in which activations make the peak', () => {
    // 8 x 2 samples of 100, and gradients that are counted with them: an upper bound.
    const larger = fakeEstimate({ ...workload, batch: 16 });
    expect(backwardBytes(larger, 8)).toBe((1600 + 4000) / 8);
  });
});
