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
function estimatorOf(parameters: number, asked: Workload[], ofSample = GiB) {
  return (one: Workload) => {
    asked.push(one);
    const { parallel, batch, checkpointing } = one;
    const ranks = parallel?.way === 'fsdp2' ? parallel.gpus : 1;
    const whole = parallel?.reshard === false ? 2 * parameters : 0;
    const activations = batch * ofSample * (checkpointing ? 0.1 : 1);
    return Promise.resolve(estimateOf((16 * parameters) / ranks + whole + activations));
  };
}

const request = {
  workload,
  capacityBytes: 80 * GiB,
  gpus: 8,
  tokensPerSample: 1024,
  checkpointing: 'if-needed',
} as const;

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

  it('splits a batch that does not fit at once into equal passes, and keeps the effective batch', async () => {
    const asked: Workload[] = [];
    const large = { ...request, workload: { ...workload, batch: 8 * 96 } };
    const { chosen } = await chooseSharding(large, estimatorOf(1e9, asked));
    // 16 GB of states leave room for 65 samples; 48 is the largest part of 96 below.
    expect(chosen).toMatchObject({ parallel: { way: 'ddp' }, batch: 48, accumulation: 2 });
    for (const { batch, accumulation } of asked)
      expect(accumulation).toBe(batch < 96 ? 2 : undefined);
    const ofDdp = asked.filter(({ parallel }) => parallel?.way === 'ddp').map(({ batch }) => batch);
    expect(ofDdp).toEqual([96, 1, 48]);
  });

  it('recomputes forward where that is faster than more passes, and says when nothing fits', async () => {
    // Divided by itself and by one alone.
    const large = { ...request, workload: { ...workload, batch: 8 * 71 } };
    const { chosen } = await chooseSharding(large, estimatorOf(13e9, []));
    expect(chosen).toMatchObject({ checkpointing: true, batch: 71, accumulation: 1 });
    const without = { ...large, checkpointing: 'never' as const };
    const passes = await chooseSharding(without, estimatorOf(13e9, []));
    expect(passes.chosen).toMatchObject({ checkpointing: false, batch: 1, accumulation: 71 });
    const none = await chooseSharding(without, estimatorOf(13e9, [], 100 * GiB));
    expect(none.chosen).toBeUndefined();
    expect(none.tried.map(({ fit }) => fit)).toEqual(['no', 'no', 'no']);
    expect(none.estimate?.peak).toEqual(none.tried.at(-1)?.peak);
  });

  it('takes the largest batch that fits where none was asked for', async () => {
    const { chosen, tried, estimate } = await chooseSharding(
      { ...request, grows: true },
      estimatorOf(1e9, []),
    );
    expect(chosen?.batch).toBeGreaterThan(55);
    expect(chosen?.fit).toBe('surely');
    expect(tried).toEqual([chosen]);
    expect(estimate?.peak).toEqual(chosen?.peak);
  });

  it('keeps the precision, the optimizer and the checkpointing that were asked for', async () => {
    const asked: Workload[] = [];
    const wished = { ...workload, precision: 'fp32', optimizer: 'sgd', batch: 8 * 900 } as const;
    const always = { ...request, workload: wished, checkpointing: 'always' } as const;
    const { chosen, tried } = await chooseSharding(always, estimatorOf(1e9, asked, 1000 * GiB));
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
    expect(new Set(asked.map(({ precision }) => precision))).toEqual(new Set(['amp-fp16', 'fp32']));
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
    const one = {
      workload: { ...workload, batch: 1 },
      capacityBytes: 80 * GiB,
      tokensPerSample: 1024,
    };
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
    const one = {
      workload: { ...workload, batch: 1 },
      capacityBytes: 80 * GiB,
      tokensPerSample: 1024,
    };
    const none = await neededGpus({ ...one, checkpointing: 'if-needed' }, estimatorOf(1e13, seen));
    expect(none).toMatchObject({ gpus: 512, sharding: { tried: [{ fit: 'no' }] } });
    expect(none.sharding.chosen).toBeUndefined();
    expect(seen).toHaveLength(1);
  });
});
