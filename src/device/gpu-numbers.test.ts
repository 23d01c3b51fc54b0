import { describe, expect, it } from 'vitest';
import { GpuNumbers } from './gpu-numbers.js';

describe('GpuNumbers', () => {
  it('gives the wished number, else the first that is free, and never another later', () => {
    const numbers = new GpuNumbers();
    expect(numbers.numberOf('b', 1)).toBe(1);
    expect(numbers.numberOf('amd')).toBe(0);
    expect(numbers.numberOf('c', 1)).toBe(2);
    expect(numbers.numberOf('b', 5)).toBe(1);
    expect(numbers.numberOf('amd')).toBe(0);
  });
});
