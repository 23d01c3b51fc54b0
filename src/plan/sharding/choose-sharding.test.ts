import { describe, expect, it } from 'vitest';
import type { Estimate, Workload } from '../../estimate/types.js';
import { GiB } from '../../units/bytes.js';
import { chooseSharding, neededGpus } from './choose-sharding.js';

const workload: Workload = {
  mode: 'train',
  batch: 16,
  sequence: 1024,
  precision: 'amp-bf16',
  optimizer: 'adamw',
  checkpointing: false,
};

function estimateOf(bytes: number): Estimate {
  return {
    method: 'trace',
    peak: {
      allocatedBytes: bytes,
      reservedBytes: bytes,
      deviceBytes: bytes,
      leastCapacityBytes: bytes,
    },
    interval: { lowBytes: bytes, highBytes: bytes, confidence: 0.95 },
    breakdown: [],
    notes: [],
  };
}

/** 16 bytes a parameter, shared out, and 1 GiB a sample, of which checkpointing leaves a tenth. */
function estimatorOf(parameters: number, asked: Workload[]) {
  return (one: Workload) => {
    asked.push(one);
    const { parallel, batch, checkpointing } = one;
    const ranks = parallel?.way === 'fsdp2' ? parallel.gpus : 1;
    const whole = parallel?.reshard === false ? 2 * parameters : 0;
    const activations = batch * GiB * (checkpointing ? 0.1 : 1);
    return Promise.resolve(estimateOf((16 * parameters) / ranks + whole + activations));
  };
}

const request = { workload, capacityBytes: 80 * GiB, gpus: 8, checkpointing: 'if-needed' } as const;

describe('chooseSharding', () => {
  it('takes DDP where the whole model fits, and looks no further', async () => {
    const asked: Workload[] = [];
    const { chosen, tried } = await chooseSharding(request, estimatorOf(1e9, asked));
    expect(chosen).toMatchObject({ parallel: { way: 'ddp', gpus: 8 }, batch: 2 });
    expect([tried.length, asked.length]).toEqual([1, 1]);
  });

  it('does not trace what cannot fit by weights and states alone', async () => {
    const asked: Workload[] = [];
    const estimator = estimatorOf(8e9, asked);
    const { chosen, tried } = await chooseSharding({ ...request, parameters: 8e9 }, estimator);
    expect(tried[0]).toMatchObject({ parallel: { way: 'ddp' }, fit: 'no' });
    expect(tried[0]).not.toHaveProperty('peak');
    expect(chosen?.parallel).toMatchObject({ way: 'fsdp2', reshard: false });
    expect(asked.every(({ parallel }) => parallel?.way === 'fsdp2')).toBe(true);
  });

  it('recomputes forward only where nothing faster fits, and says when nothing does', async () => {
    const large = { ...request, workload: { ...workload, batch: 8 * 70 } };
    const { chosen } = await chooseSharding(large, estimatorOf(13e9, []));
    expect(chosen).toMatchObject({ checkpointing: true });
    const without = await chooseSharding(
      { ...large, checkpointing: 'never' as const },
      estimatorOf(13e9, []),
    );
    expect(without.chosen).toBeUndefined();
    expect(without.tried.map(({ fit }) => fit)).toEqual(['no', 'no', 'no']);
  });

  it('keeps the precision, the optimizer and the checkpointing that were asked for', async () => {
    const asked: Workload[] = [];
    const wished = { ...workload, precision: 'fp32', optimizer: 'sgd', batch: 8 * 900 } as const;
    const always = { ...request, workload: wished, checkpointing: 'always' } as const;
    const { chosen, tried } = await chooseSharding(always, estimatorOf(1e9, asked));
    expect(chosen).toBeUndefined();
    expect(tried.map(({ checkpointing }) => checkpointing)).toEqual([true, true, true]);
    for (const { precision, optimizer, parallel } of asked) {
      expect([precision, optimizer]).toEqual(['fp32', 'sgd']);
      expect(parallel).not.toHaveProperty('gatherPrecision');
    }
  });

  it('gathers in the 16 bits that were asked for, and shards in 32', async () => {
    const asked: Workload[] = [];
    const half = { ...request, workload: { ...workload, precision: 'amp-fp16' } } as const;
    const { chosen } = await chooseSharding(half, estimatorOf(8e9, asked));
    expect(asked.map(({ precision }) => precision)).toEqual(['amp-fp16', 'fp32']);
    expect(chosen).toMatchObject({
      precision: 'amp-fp16',
      parallel: { gatherPrecision: 'fp16', reducePrecision: 'fp32' },
    });
  });

  it('counts the states of the optimizer that was asked for', async () => {
    const of = (optimizer: Workload['optimizer']) =>
      chooseSharding({ ...request, parameters: 5e9, workload: { ...workload, optimizer } }, () =>
        Promise.resolve(estimateOf(GiB)),
      );
    expect((await of('adamw')).chosen?.parallel.way).toBe('fsdp2');
    expect((await of('sgd')).chosen?.parallel.way).toBe('ddp');
  });
});

describe('neededGpus', () => {
  it('is the least count on which it surely fits', async () => {
    const one = { workload: { ...workload, batch: 1 }, capacityBytes: 80 * GiB };
    const needed = await neededGpus({ ...one, checkpointing: 'if-needed' }, estimatorOf(70e9, []));
    expect(needed.gpus).toBe(16);
    expect(needed.sharding.chosen?.parallel.gpus).toBe(16);
    for (const [parameters, gpus] of [
      [1e9, 2],
      [13e9, 4],
      [5e12, 512],
    ] as const) {
      const more = await neededGpus(
        { ...one, checkpointing: 'if-needed' },
        estimatorOf(parameters, []),
      );
      expect([parameters, more.gpus]).toEqual([parameters, gpus]);
    }
  });

  it('is not known where the most are not enough: what they would need is told, after one trace', async () => {
    const seen: Workload[] = [];
    const one = { workload: { ...workload, batch: 1 }, capacityBytes: 80 * GiB };
    const none = await neededGpus({ ...one, checkpointing: 'if-needed' }, estimatorOf(1e13, seen));
    expect(none).toMatchObject({ gpus: 512, sharding: { tried: [{ fit: 'no' }] } });
    expect(none.sharding.chosen).toBeUndefined();
    expect(seen).toHaveLength(1);
  });
});
