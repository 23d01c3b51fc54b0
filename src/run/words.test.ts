import { describe, expect, it } from 'vitest';
import { outOfMemoryWords, passedLimit, placesWords, settingsWords } from './words.js';

describe('the words of an out-of-memory', () => {
  it.each([
    ['killed-at-limit', 'killed by the kernel at its 300 MiB limit'],
    ['killed-by-kernel', 'killed by the kernel because the memory was full'],
    ['cuda', 'out of memory (cuda)'],
    // As earlier reports have it.
    ['cgroup-killer', 'killed by the kernel at its 300 MiB limit'],
    ['kernel-killer', 'killed by the kernel because the memory was full'],
  ])('of the kind %s say how it happened', (kind, words) => {
    expect(outOfMemoryWords({ kind, totalBytes: 300 * 2 ** 20 })).toBe(words);
  });
});

describe('the words of a device', () => {
  const settings = {
    batch_size: 8,
    accumulation: 4,
    checkpointing: false,
    precision: 'fp32',
    offload: false,
    device: 'gpu:0',
  } as const;

  it('say that a GPU is simulated, and never so of the host', () => {
    expect(settingsWords(settings)).toBe('batch 8 x 4, on gpu:0');
    const simulated = { ...settings, simulated_device: true };
    expect(settingsWords(simulated)).toBe('batch 8 x 4, on gpu:0 (simulated)');
    expect(settingsWords({ ...simulated, device: 'host' })).toBe('batch 8 x 4, on host');
    expect(placesWords({ devices: ['gpu:0', 'gpu:1'], simulated: true })).toBe(
      'gpu:0, gpu:1 (simulated)',
    );
  });
});

describe('a limit that PyTorch was to keep', () => {
  const attempt = {
    number: 2,
    limit: { bytes: 5 * 2 ** 30, by: 'sdk', why: '' },
    peakBytes: 6 * 2 ** 30,
    peakFrom: 'sdk',
  } as const;

  it('is reported when an attempt held more', () => {
    expect(passedLimit(attempt)).toBe(
      "Attempt 2 held 6.0 GiB and passed its limit of 5.0 GiB: the program changed PyTorch's own limit, or took memory in another way.",
    );
  });

  it.each([
    ['it held just as much', { peakBytes: 5 * 2 ** 30 }],
    ['nothing was measured', { peakBytes: 'unknown' }],
    ['the kernel kept the limit', { limit: { ...attempt.limit, by: 'cgroup-v2' } }],
    ['the driver counted the context too', { peakFrom: 'nvml' }],
    ['there was none', { limit: { bytes: 'none', by: 'none', why: '' } }],
  ] as const)('is not where %s', (_, change) => {
    expect(passedLimit({ ...attempt, ...change })).toBeUndefined();
  });
});
