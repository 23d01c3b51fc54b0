import { describe, expect, it } from 'vitest';
import { debugFindings, productionEnvironment, readChanges } from './job-environment.js';

const context = { vendor: 'nvidia', cores: 8, gpus: 1 } as const;
const debug = { CUDA_LAUNCH_BLOCKING: '1', PYTORCH_NO_CUDA_MEMORY_CACHING: '1', SEED: '1' };

describe('productionEnvironment', () => {
  it('takes out what is for debugging, says what it costs, and sets the allocator', () => {
    const { variables, changes } = productionEnvironment(debug, context, { by: 'submit' });
    expect(variables).toEqual({ SEED: '1', PYTORCH_CUDA_ALLOC_CONF: expect.any(String) });
    expect(changes.map(({ name, from, to }) => [name, from, to])).toEqual([
      ['CUDA_LAUNCH_BLOCKING', '1', null],
      ['PYTORCH_NO_CUDA_MEMORY_CACHING', '1', null],
      ['PYTORCH_CUDA_ALLOC_CONF', null, expect.any(String)],
    ]);
    expect(new Set(changes.map(({ by }) => by))).toEqual(new Set(['submit']));
    expect(changes[0]?.reason).toContain('1.4 to 2.1 times');
  });

  it('leaves alone what was asked for by name, and allocator settings of the user', () => {
    const named = new Set(['CUDA_LAUNCH_BLOCKING']);
    const own = { ...debug, PYTORCH_CUDA_ALLOC_CONF: 'max_split_size_mb:128' };
    const { variables } = productionEnvironment(own, context, { by: 'run', named });
    expect(variables).toEqual({
      CUDA_LAUNCH_BLOCKING: '1',
      SEED: '1',
      PYTORCH_CUDA_ALLOC_CONF: 'max_split_size_mb:128',
    });
  });

  it('only removes debug settings for the jobs of a server', () => {
    const { variables, changes } = productionEnvironment(debug, context, { by: 'serve' });
    expect(variables).toEqual({ SEED: '1' });
    expect(changes.map(({ to }) => to)).toEqual([null, null]);
  });

  it('finds nothing in a clean environment, and in a value that means off', () => {
    expect(debugFindings({ CUDA_LAUNCH_BLOCKING: '0', SEED: '1' }, context)).toEqual([]);
  });
});

describe('readChanges', () => {
  const change = { name: 'A', from: null, to: '1', by: 'submit', reason: 'why' };

  it('reads what was handed on as text', () => {
    expect(readChanges(JSON.stringify([change]))).toEqual([change]);
    expect(readChanges('[]')).toEqual([]);
  });

  it.each([
    '',
    '{}',
    '[1]',
    'null',
    JSON.stringify([{ ...change, by: 'someone' }]),
    JSON.stringify([{ ...change, from: 1 }]),
    JSON.stringify(Array.from({ length: 101 }, () => change)),
  ])('does not take %j', (text) => {
    expect(readChanges(text)).toBeUndefined();
  });
});
