import { describe, expect, it } from 'vitest';
import { largestModules, moduleWords, settingOptions } from './estimate-words.js';

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
