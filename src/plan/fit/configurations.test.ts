import { describe, expect, it } from 'vitest';
import { callWording } from '../../estimate/wording.js';
import { configurationsToTry } from './configurations.js';
import { facts } from './estimates-for-tests.js';
import { concessions } from './types.js';

function words(
  wishes: Parameters<typeof configurationsToTry>[0],
  more: Partial<typeof facts> = {},
) {
  return configurationsToTry(wishes, { ...facts, ...more }, callWording).map((configuration) =>
    [
      configuration.precision,
      configuration.optimizer,
      configuration.quantization ?? '-',
      configuration.concession,
    ].join(' '),
  );
}

describe('configurationsToTry', () => {
  it('has one configuration where everything is fixed', () => {
    expect(
      words({
        mode: 'train',
        precision: 'bf16',
        optimizer: 'sgd',
        checkpointing: false,
        loraRank: 8,
        quantization: 'int8',
      }),
    ).toEqual(['bf16 sgd int8 speed']);
  });

  it('leaves each configuration only once, and each with words for what it gives up', () => {
    const configurations = configurationsToTry(
      { mode: 'train' },
      { ...facts, gpus: 8 },
      callWording,
    );
    expect(new Set(configurations.map((configuration) => JSON.stringify(configuration))).size).toBe(
      configurations.length,
    );
    for (const { concession, givesUp } of configurations) {
      expect(givesUp.length > 0).toBe(concession !== 'speed');
    }
    expect(new Set(configurations.map(({ concession }) => concession))).toEqual(
      new Set(concessions),
    );
  });

  it('proposes no bf16 to a card that has none, and no training in fp16', () => {
    const all = words({ mode: 'train' }, { bfloat16: false }).join('\n');
    expect(all).not.toContain('bf16');
    expect(all).not.toMatch(/^fp16 \S+ - (?!training)/m);
  });

  it('puts no adapters on what transformers does not load', () => {
    const configurations = configurationsToTry(
      { mode: 'train' },
      { ...facts, transformers: false },
      callWording,
    );
    expect(configurations.every(({ loraRank }) => loraRank === undefined)).toBe(true);
  });

  it('trains adapters where the weights are rounded', () => {
    const configurations = configurationsToTry(
      { mode: 'train', quantization: 'int4' },
      facts,
      callWording,
    );
    expect(configurations.every(({ loraRank }) => loraRank === 16)).toBe(true);
    expect(configurations[0]?.givesUp.join()).toContain('rounded weights cannot be');
  });

  it('infers with the most bits first', () => {
    expect(words({ mode: 'infer' })).toEqual([
      'bf16 adamw - speed',
      'bf16 adamw int8 weights in 8 bits',
      'bf16 adamw int4 weights in 4 bits',
      'bf16 adamw int4_double weights in 4 bits',
      'bf16 adamw int4_offload weights in 4 bits',
    ]);
  });
});
