import { describe, expect, it } from 'vitest';
import { shardingSnippet } from '../../plan/snippets/sharding.js';
import { GiB } from '../../units/bytes.js';
import { shardingText } from '../plan-words.js';

const peak = {
  allocatedBytes: GiB,
  reservedBytes: GiB,
  deviceBytes: 2 * GiB,
  leastCapacityBytes: 2 * GiB,
};
const ddp = {
  parallel: { way: 'ddp', gpus: 8 },
  precision: 'amp-bf16',
  optimizer: 'adamw-fused',
  checkpointing: false,
  batch: 2,
  accumulation: 1,
  fit: 'no',
  givesUp: 'nothing: every GPU holds the whole model',
} as const;
const fsdp = {
  parallel: { way: 'fsdp2', gpus: 8, gatherPrecision: 'bf16', reducePrecision: 'fp32' },
  precision: 'amp-bf16',
  optimizer: 'adamw-fused',
  checkpointing: true,
  batch: 2,
  accumulation: 1,
  peak,
  fit: 'surely',
  givesUp: 'parameters are gathered twice a pass',
} as const;

describe('shardingText', () => {
  it('says what was tried, what to take, and what to paste', () => {
    const snippet = shardingSnippet(fsdp);
    const tried = [ddp, fsdp];
    const text = shardingText({ gpus: 8, needed: false, chosen: fsdp, tried, snippet });
    expect(text).toContain('On 8 GPUs, by trace');
    expect(text).toMatch(/ddp +too large/);
    expect(text).toMatch(/fsdp2 --checkpointing +fits +2\.0 GiB/);
    expect(text).toContain('Take fsdp2 --checkpointing.');
    expect(text).toContain('fully_shard(layer, mp_policy=policy)');
    expect(text).toContain('torchrun --nproc-per-node 8 train.py');
  });

  it('answers how many are needed, and says when nothing fits', () => {
    expect(shardingText({ gpus: 16, needed: true, chosen: fsdp, tried: [fsdp] })).toContain(
      '16 such GPUs are needed',
    );
    expect(shardingText({ gpus: 512, needed: true, tried: [{ ...fsdp, fit: 'no' }] })).toContain(
      '512 such GPUs are not enough',
    );
    expect(shardingText({ gpus: 2, needed: false, tried: [ddp] })).toContain(
      'Nothing of this fits',
    );
  });

  it('says how many passes there are before a step, and what changes', () => {
    const passes = { ...fsdp, accumulation: 4 };
    const changes = 'A batch of 60 cannot be split evenly.';
    const text = shardingText({ gpus: 8, needed: true, changes, chosen: passes, tried: [passes] });
    expect(text).toContain('gathered twice a pass, 4 passes of 2 a step');
    expect(text).toContain('Take fsdp2 --checkpointing, with 4 passes of 2 on each GPU in a step.');
    expect(text).toContain(changes);
  });

  it('starts several machines, and keeps parameters gathered where that was chosen', () => {
    const many = { ...fsdp, parallel: { way: 'fsdp2', gpus: 64, reshard: false } } as const;
    expect(shardingSnippet(many)).toContain('torchrun --nnodes 8 --nproc-per-node 8');
    const uneven = { ...fsdp, parallel: { way: 'fsdp2', gpus: 12 } } as const;
    expect(shardingSnippet(uneven)).toContain('torchrun --nnodes 2 --nproc-per-node 6');
    expect(shardingSnippet(many)).toContain('reshard_after_forward=False');
    expect(shardingSnippet(ddp)).toContain('DistributedDataParallel(model.to("cuda"))');
  });
});
