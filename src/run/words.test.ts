import { describe, expect, it } from 'vitest';
import { outOfMemoryWords } from './words.js';

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
