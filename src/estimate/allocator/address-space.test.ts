import { describe, expect, it } from 'vitest';
import { addressSpaceFor } from './address-space.js';

describe('addressSpaceFor', () => {
  it('goes one way when it is told to', () => {
    const falling = addressSpaceFor('falling');
    const rising = addressSpaceFor('rising');
    const sizes = [20, 2, 40];
    expect(sizes.map((bytes) => falling.take(bytes))).toEqual([-20, -22, -62]);
    expect(sizes.map((bytes) => rising.take(bytes))).toEqual([0, 20, 22]);
  });
});
