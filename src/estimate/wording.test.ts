import { expect, it } from 'vitest';
import { callWording } from './wording.js';

it('names settings as those who call the functions write them', () => {
  const { name, example } = callWording;
  expect(name('seq')).toBe('sequence');
  expect(name('lora')).toBe('loraRank');
  expect(name('quantization')).toBe('quantization');
  expect(example('seq', 1024)).toBe('sequence: 1024');
  expect(example('method', 'trace')).toBe("method: 'trace'");
});
