import { expect, it } from 'vitest';
import { GiB } from '../../units/bytes.js';
import { optionWording } from './workload-machine.js';

it('names options as they are typed', () => {
  const { name, example } = optionWording;
  expect(name('seq')).toBe('--seq');
  expect(name('maxBatch')).toBe('--max-batch');
  expect(example('memoryBytes', 24 * GiB)).toBe('--memory 24GiB');
  expect(example('args', { batch: '8' })).toBe('--arg batch=8');
  expect(example('type', 'cnn')).toBe('--type cnn');
  expect(example('seq', 160_000)).toBe('--seq 160000');
});
