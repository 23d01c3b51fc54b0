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

function given(own: Record<string, string>, expandable?: boolean, headroom?: number) {
  return jobEnvironment({
    own,
    settings: {
      ...settings,
      ...(expandable === undefined ? {} : { expandable_segments: true }),
      ...(headroom !== undefined && { spill_headroom_bytes: headroom }),
    },
    attempt: 2,
    id: 'x',
    bridge: '/b',
    sdkFolder: '/s',
    pythonFolder: '/p',
    memoryBytes: undefined,
    spill: 'auto',
    visible: undefined,
  });
}

describe('the environment of an attempt', () => {
  it('says whether memory may give way, and after a failure how much to keep free', () => {
    expect(given({ PLIMSOLL_SPILL: 'off' })).toMatchObject({ PLIMSOLL_SPILL: 'auto' });
    expect(given({})).not.toHaveProperty('PLIMSOLL_SPILL_HEADROOM_BYTES');
    expect(given({}, undefined, 77)).toMatchObject({
      PLIMSOLL_SPILL: 'always',
      PLIMSOLL_SPILL_HEADROOM_BYTES: '77',
    });
  });

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
