import { describe, expect, it } from 'vitest';
import { callWording } from '../../estimate/wording.js';
import { facts } from './estimates-for-tests.js';
import { concessions } from './types.js';
import { waysToRun } from './ways.js';

function words(wishes: Parameters<typeof waysToRun>[0], more: Partial<typeof facts> = {}) {
  return waysToRun(wishes, { ...facts, ...more }, callWording).map((way) =>
    [way.precision, way.optimizer, way.quantization ?? '-', way.concession].join(' '),
  );
}

describe('waysToRun', () => {
  it('has one way where everything is fixed', () => {
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

  it('leaves each way only once, and each with words for what it gives up', () => {
    const ways = waysToRun({ mode: 'train' }, { ...facts, gpus: 8 }, callWording);
    expect(new Set(ways.map((way) => JSON.stringify(way))).size).toBe(ways.length);
    for (const { concession, givesUp } of ways) {
      expect(givesUp.length > 0).toBe(concession !== 'speed');
    }
    expect(new Set(ways.map(({ concession }) => concession))).toEqual(new Set(concessions));
  });

  it('proposes no bf16 to a card that has none, and no training in fp16', () => {
    const all = words({ mode: 'train' }, { bfloat16: false }).join('\n');
    expect(all).not.toContain('bf16');
    expect(all).not.toMatch(/^fp16 \S+ - (?!training)/m);
  });

  it('puts no adapters on what transformers does not load', () => {
    const ways = waysToRun({ mode: 'train' }, { ...facts, transformers: false }, callWording);
    expect(ways.every(({ loraRank }) => loraRank === undefined)).toBe(true);
  });

  it('trains adapters where the weights are rounded', () => {
    const ways = waysToRun({ mode: 'train', quantization: 'int4' }, facts, callWording);
    expect(ways.every(({ loraRank }) => loraRank === 16)).toBe(true);
    expect(ways[0]?.givesUp.join()).toContain('rounded weights cannot be');
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
