import { describe, expect, it } from 'vitest';
import { jobEnvironment } from './attempt-environment.js';

const settings = {
  batch_size: 4,
  accumulation: 2,
  checkpointing: false,
  precision: 'fp32',
  offload: false,
  device: 'gpu:0',
};

function given(own: Record<string, string>, expandable?: boolean) {
  return jobEnvironment({
    own,
    settings: { ...settings, ...(expandable === undefined ? {} : { expandable_segments: true }) },
    attempt: 2,
    id: 'x',
    bridge: '/b',
    sdkFolder: '/s',
    pythonFolder: '/p',
    memoryBytes: undefined,
    visible: undefined,
  });
}

describe('the environment of an attempt', () => {
  it('leaves the allocator as it is set until memory ran out in pieces', () => {
    expect(given({})).not.toHaveProperty('PYTORCH_CUDA_ALLOC_CONF');
  });

  it.each([
    [{}, 'PYTORCH_CUDA_ALLOC_CONF', 'expandable_segments:True'],
    [
      { PYTORCH_CUDA_ALLOC_CONF: 'max_split_size_mb:64' },
      'PYTORCH_CUDA_ALLOC_CONF',
      'max_split_size_mb:64,expandable_segments:True',
    ],
    [
      { PYTORCH_ALLOC_CONF: 'max_split_size_mb:64' },
      'PYTORCH_ALLOC_CONF',
      'max_split_size_mb:64,expandable_segments:True',
    ],
    [
      { PYTORCH_CUDA_ALLOC_CONF: 'expandable_segments:False' },
      'PYTORCH_CUDA_ALLOC_CONF',
      'expandable_segments:False',
    ],
  ])('adds expandable segments to %j', (own, name, value) => {
    expect(given(own, true)).toMatchObject({ [name]: value, PLIMSOLL_BATCH_SIZE: '4' });
  });
});
