import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { quantizationPresets } from '../../estimate/types.js';
import { GiB } from '../../units/bytes.js';
import { type ChooseOptions, choosePreset } from './choose.js';
import { presetFacts, weightBytes } from './presets.js';

const llama7b = { parameters: 6_738_415_616, keptParameters: 262_410_240 };
const calm22b = { parameters: 22.5e9 };

function chosen(options: Partial<ChooseOptions>): string {
  const { preset, training } = choosePreset({
    ...llama7b,
    freeBytes: 0,
    hostFreeBytes: 0,
    forTraining: false,
    ...options,
  });
  return training === 'none' ? preset : `${preset} ${training}`;
}

describe('weightBytes', () => {
  it('counts the scales, and leaves in 16 bits what is never quantized', () => {
    const linear = 1e9;
    const model = { parameters: linear, keptParameters: 0 };
    expect(weightBytes('cpu', model)).toBe(4e9);
    expect(weightBytes('fp16', model)).toBe(2e9);
    expect(weightBytes('int8', model)).toBe(1_003_906_250);
    expect(weightBytes('int4', model)).toBe(562_500_000);
    expect(weightBytes('int4_double', model) / linear).toBeCloseTo(0.5159, 4);
    expect(weightBytes('int4', { parameters: linear, keptParameters: 1e8 })).toBe(
      2e8 + 0.9 * 562_500_000,
    );
    expect(weightBytes('fp16', { ...model, weightBytesFp16: 2.1e9 })).toBe(2.1e9);
  });

  it('assumes enough for embeddings and head where it is unknown', () => {
    const real = { parameters: 1_235_814_400, keptParameters: 262_735_872 };
    const assumed = { parameters: real.parameters };
    expect(weightBytes('int4', assumed)).toBeGreaterThanOrEqual(weightBytes('int4', real));
    expect(weightBytes('int4', { parameters: llama7b.parameters })).toBeGreaterThanOrEqual(
      weightBytes('int4', llama7b),
    );
  });
});

describe('choosePreset', () => {
  it.each([
    [80, 'fp16'],
    [16, 'fp16'],
    [12, 'int8'],
    [8, 'int4'],
    [6, 'int4_double'],
    [3, 'int4_offload'],
    [0, 'cpu'],
  ])('takes for inference of 7 billion parameters with %d GiB %s', (gibibytes, preset) => {
    expect(chosen({ freeBytes: gibibytes * GiB, hostFreeBytes: 64 * GiB })).toBe(preset);
  });

  it.each([
    [80, 'fp16 full'],
    [24, 'fp16 lora'],
    [16, 'int8 lora'],
    [10, 'int4 lora'],
    [8.7, 'int4_double lora'],
    [4, 'none'],
  ])('takes for training with %d GiB %s', (gibibytes, preset) => {
    const freeBytes = gibibytes * GiB;
    expect(chosen({ freeBytes, hostFreeBytes: 64 * GiB, forTraining: true })).toBe(preset);
  });

  it('trains 22 billion parameters on one card of 24 GiB only in 4 bits, if at all', () => {
    const options = { ...calm22b, freeBytes: 23.5 * GiB, hostFreeBytes: 64 * GiB };
    const working = { forTraining: true, workingBytes: 4 * GiB };
    expect(chosen({ ...options, ...working })).toBe('int4 lora');
  });

  it('says why, and what the others would take', () => {
    const { reason, alternatives } = choosePreset({
      ...llama7b,
      freeBytes: 12 * GiB,
      hostFreeBytes: 64 * GiB,
      forTraining: false,
    });
    expect(reason).toMatch(
      /^It is the most precise that fits for inference: it needs about \d+\.\d GiB of the GPU \(estimated\); 12\.0 GiB of the GPU and 64\.0 GiB of the host are free\. fp16 would need 1\d\.\d GiB\.$/,
    );
    expect(alternatives.map(({ preset, fits }) => [preset, fits])).toEqual([
      ['fp16', false],
      ['int8', true],
      ['int4', true],
      ['int4_double', true],
      ['int4_offload', true],
      ['cpu', true],
    ]);
    const none = choosePreset({ ...llama7b, freeBytes: 0, hostFreeBytes: 0, forTraining: true });
    expect(none.reason).toMatch(/^Nothing fits for training: .* the smallest needs \d+\.\d GiB/);
  });

  it('tells transformers how much the weights may take, its own tenth counted in', () => {
    const options = { ...llama7b, hostFreeBytes: 64 * GiB, forTraining: false, workingBytes: GiB };
    const int8 = choosePreset({ ...options, freeBytes: 10 * GiB });
    expect(int8.preset).toBe('int8');
    expect(int8.memory.gpuBytes).toEqual([10 * GiB]);
    const fp16 = choosePreset({ ...options, freeBytes: 20 * GiB });
    expect(fp16.memory.gpuBytes).toEqual([19 * GiB]);
    const offload = choosePreset({ ...options, freeBytes: 4 * GiB });
    expect(offload).toMatchObject({ preset: 'int4_offload', memory: { hostBytes: 64 * GiB } });
    expect((offload.memory.gpuBytes[0] ?? 0) * 0.9).toBeLessThanOrEqual(3 * GiB);
  });

  it('offloads only as much as does not fit', () => {
    const options = { ...llama7b, hostFreeBytes: 64 * GiB, forTraining: false, workingBytes: 0 };
    const split = (freeBytes: number) =>
      choosePreset({ ...options, freeBytes }).alternatives.find(
        ({ preset }) => preset === 'int4_offload',
      );
    expect(split(80 * GiB)?.hostBytes).toBe(0);
    const half = split(2 * GiB);
    expect(half?.gpuBytes).toBe(2 * GiB);
    expect(half?.hostBytes).toBeGreaterThan(4 * GiB);
    expect(split(GiB / 8)).toMatchObject({ fits: false });
  });

  it.each([
    { parameters: 0 },
    { parameters: -1 },
    { parameters: Number.NaN },
    { freeBytes: -1 },
    { hostFreeBytes: Number.POSITIVE_INFINITY },
    { workingBytes: -5 },
  ])('refuses %j', (wrong) => {
    expect(() => chosen(wrong)).toThrow(expect.objectContaining({ code: 'bad-model-size' }));
  });

  it('never chooses what does not fit, and gets no worse with more memory', () => {
    const rank = [...quantizationPresets.filter((preset) => preset !== 'cpu'), 'cpu', 'none'];
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 1e12 }),
        fc.nat({ max: 200 * GiB }),
        fc.nat({ max: 500 * GiB }),
        fc.boolean(),
        (parameters, freeBytes, hostFreeBytes, forTraining) => {
          const options = { parameters, freeBytes, hostFreeBytes, forTraining };
          const choice = choosePreset(options);
          const option = choice.alternatives.find(({ fits }) => fits);
          expect(option?.preset ?? 'none').toBe(choice.preset);
          expect(option?.gpuBytes ?? 0).toBeLessThanOrEqual(freeBytes);
          expect(option?.hostBytes ?? 0).toBeLessThanOrEqual(hostFreeBytes);
          for (const { gpuBytes, hostBytes } of choice.alternatives) {
            expect(Number.isSafeInteger(gpuBytes) && Number.isSafeInteger(hostBytes)).toBe(true);
          }
          const more = choosePreset({ ...options, freeBytes: freeBytes * 2 });
          expect(rank.indexOf(more.preset)).toBeLessThanOrEqual(rank.indexOf(choice.preset));
        },
      ),
    );
  });
});

describe('the presets', () => {
  it('get smaller in their order', () => {
    const sizes = ['cpu', 'fp16', 'int8', 'int4', 'int4_double'] as const;
    const bytes = sizes.map((preset) => presetFacts[preset].bytesPerParameter);
    expect(bytes).toEqual(bytes.toSorted((a, b) => b - a));
  });
});

describe('the examples', () => {
  it('are true', () => {
    const host = { hostFreeBytes: 128 * GiB };
    const training = { parameters: 22.5e9, freeBytes: 47 * GiB, forTraining: true };
    expect(choosePreset({ ...training, ...host })).toMatchObject({
      preset: 'int8',
      training: 'lora',
      reason: expect.stringMatching(
        /^It is the most precise that fits for training with LoRA: it needs about /,
      ),
    });
    const inference = { parameters: 22e9, freeBytes: 24e9, forTraining: false };
    expect(choosePreset({ ...inference, hostFreeBytes: 64e9 }).preset).toBe('int4');
  });
});
