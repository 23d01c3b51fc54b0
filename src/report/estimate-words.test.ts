import { describe, expect, it } from 'vitest';
import { GiB } from '../units/bytes.js';
import { largestModules, moduleWords, settingOptions, spillPointWords } from './estimate-words.js';

const modules = (count: number) =>
  Array.from({ length: count }, (_, index) => ({
    module: `m${index}`,
    count: 1,
    bytes: 10 - index,
  }));

describe('settingOptions', () => {
  it('writes settings as the options that set them', () => {
    expect(settingOptions({ batch: 4 })).toBe('--batch 4');
    expect(settingOptions({ sequence: 512, loraRank: 8, checkpointing: true })).toBe(
      '--seq 512 --lora 8 --checkpointing',
    );
    expect(settingOptions({ checkpointing: false })).toBe('--no-checkpointing');
  });
});

describe('spillPointWords', () => {
  it('says how long a step takes in less memory, with its interval', () => {
    const slowdown = { low: 1.2, expected: 1.41, high: 2.3 };
    expect(spillPointWords({ memoryBytes: 12 * GiB, slowdown })).toBe(
      'fits into 12.0 GiB at about 1.41 times the time of a step (1.2 to 2.3)',
    );
  });
});

describe('largestModules', () => {
  it('sums up what is not shown, but never a single one', () => {
    expect(largestModules(modules(5), 3)).toEqual({
      shown: modules(3),
      others: { count: 2, bytes: 7 + 6 },
    });
    expect(largestModules(modules(4), 3)).toEqual({ shown: modules(4), others: undefined });
    expect(largestModules([], 3)).toEqual({ shown: [], others: undefined });
  });
});

describe('moduleWords', () => {
  it('says how many, and what has no name', () => {
    expect(moduleWords({ module: 'layers.*', count: 2, bytes: 1 })).toBe('layers.* (2)');
    expect(moduleWords({ module: '', count: 1, bytes: 1 })).toBe('outside of the modules');
  });
});
