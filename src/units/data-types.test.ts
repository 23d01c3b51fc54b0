import { describe, expect, it } from 'vitest';
import { bytesOf, ggmlTypes, safetensorsTypes } from './data-types.js';

describe('bytesOf', () => {
  it.each([
    ['BF16', 1000, 2000],
    ['F8_E4M3', 1000, 1000],
    ['F4', 1000, 500],
    ['F6_E3M2', 1000, 750],
    ['C64', 3, 24],
  ])('%s of %i elements', (name, elements, bytes) => {
    const type = safetensorsTypes[name];
    expect(type && bytesOf(elements, type)).toBe(bytes);
  });

  it('answers nothing where blocks are not filled or the size is not exact', () => {
    expect(bytesOf(33, { bytes: 18, elements: 32 })).toBeUndefined();
    expect(bytesOf(Number.MAX_SAFE_INTEGER, { bytes: 2, elements: 1 })).toBeUndefined();
  });

  it('knows bits a weight of the usual quantized types', () => {
    const bits = Object.fromEntries(
      [...ggmlTypes.values()].map(({ name, bytes, elements }) => [name, (bytes * 8) / elements]),
    );
    expect(bits).toMatchObject({
      Q4_0: 4.5,
      Q8_0: 8.5,
      Q2_K: 2.625,
      Q3_K: 3.4375,
      Q4_K: 4.5,
      Q5_K: 5.5,
      Q6_K: 6.5625,
      IQ2_XXS: 2.0625,
      IQ4_XS: 4.25,
      IQ1_S: 1.5625,
      MXFP4: 4.25,
      BF16: 16,
    });
  });
});
