import { describe, expect, it } from 'vitest';
import { communicationBytes, ranksOf } from './parallel.js';
import { parallelArguments } from './trace/python-trace.js';

describe('ranksOf', () => {
  it('says over how many ranks parameters are cut', () => {
    expect(ranksOf({ way: 'ddp', gpus: 8 })).toMatchObject({ count: 8, shards: 1 });
    expect(ranksOf({ way: 'zero1', gpus: 8 }).shards).toBe(1);
    expect(ranksOf({ way: 'fsdp2', gpus: 8 }).shards).toBe(8);
    expect(ranksOf({ way: 'hsdp', gpus: 16, nodes: 2 })).toMatchObject({ shards: 8, nodes: 2 });
    const both = ranksOf({ way: 'fsdp2', gpus: 8, tensorParallel: 2 });
    expect(both).toMatchObject({ shards: 4, tensorParallel: 2, communicators: 2 });
    expect(ranksOf({ way: 'tp', gpus: 4 })).toMatchObject({ shards: 1, tensorParallel: 4 });
  });
});

describe('communicationBytes', () => {
  it('grows with the groups that exchange data, not with the ranks', () => {
    const one = communicationBytes({ way: 'fsdp2', gpus: 8 });
    expect(communicationBytes({ way: 'fsdp2', gpus: 512 })).toBe(one);
    expect(communicationBytes({ way: 'hsdp', gpus: 16, nodes: 2 })).toBe(2 * one);
    expect(one).toBeGreaterThan(100 * 2 ** 20);
  });
});

describe('parallelArguments', () => {
  it('hands over what was set, and nothing else', () => {
    expect(parallelArguments({ way: 'ddp', gpus: 2 })).toEqual(['--parallel=ddp', '--gpus=2']);
    expect(
      parallelArguments({
        way: 'fsdp1',
        gpus: 8,
        gatherPrecision: 'bf16',
        reducePrecision: 'fp32',
        reshard: false,
        fsdpStrategy: 'grad-op',
        originalParameters: false,
        offload: 'optimizer',
      }),
    ).toEqual([
      '--parallel=fsdp1',
      '--gpus=8',
      '--gather-precision=bf16',
      '--reduce-precision=fp32',
      '--fsdp-strategy=grad-op',
      '--offload=optimizer',
      '--no-reshard',
      '--no-orig-params',
    ]);
  });
});
