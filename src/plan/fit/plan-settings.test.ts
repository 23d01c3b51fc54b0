import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Estimate, Workload } from '../../estimate/types.js';
import { callWording } from '../../estimate/wording.js';
import { Failure } from '../../failure.js';
import { configurationsToTry } from './configurations.js';
import { facts, fakeEstimate, fakeJudge, parameters } from './estimates-for-tests.js';
import { planSettings } from './plan-settings.js';
import { concessions, type PlanWishes } from './types.js';

function plan(wishes: PlanWishes, capacityBytes: number, gpus = 1) {
  return planSettings(wishes, { ...facts, capacityBytes, gpus }, fakeJudge());
}

const level = (name: (typeof concessions)[number]) => concessions.indexOf(name);

describe('planSettings', () => {
  it('changes nothing where there is room', async () => {
    const { settings, fits, relativeCost, givesUp } = await plan(
      { mode: 'train', batch: 16 },
      30_000,
    );
    expect({ fits, relativeCost, givesUp }).toEqual({ fits: true, relativeCost: 1, givesUp: [] });
    expect(settings).toEqual({
      batch: 16,
      accumulation: 1,
      checkpointing: false,
      precision: 'amp-bf16',
      quantization: 'none',
      offload: 'none',
      optimizer: 'adamw-fused',
      lora: 'none',
      gpus: 1,
      zero: 0,
    });
  });

  it('splits the batch before it computes anything twice', async () => {
    // 16,050 for states and context, 1,600 for the batch.
    const { settings, relativeCost } = await plan({ mode: 'train', batch: 16 }, 17_500);
    expect(settings).toMatchObject({ batch: 8, accumulation: 2, checkpointing: false });
    expect(relativeCost).toBeGreaterThan(1);
    expect(relativeCost).toBeLessThan(4 / 3);
  });

  it('lets the optimizer wait on the host before numbers lose bits', async () => {
    const { settings, hostBytes, notes } = await plan({ mode: 'train', batch: 16 }, 12_000);
    expect(settings).toMatchObject({ offload: 'optimizer', precision: 'amp-bf16' });
    expect(hostBytes).toBe(8 * parameters);
    expect(notes.join(' ')).toContain("of the host's memory");
  });

  it('takes the numbers before it trains something else', async () => {
    const wishes = { mode: 'train', batch: 16, offload: 'none' } as const;
    expect((await plan(wishes, 12_000)).concession).toBe('numerics');
    expect((await plan(wishes, 4900)).concession).toBe('training');
    const last = await plan(wishes, 1500);
    expect(last.concession).toBe('weights in 8 bits');
    expect(last.settings).toMatchObject({ lora: 16, precision: 'bf16' });
    expect(last.givesUp.join()).toContain('not the model; weights in 8 bits');
    expect((await plan(wishes, 1200)).settings.quantization).toBe('int4');
  });

  it('says so when nothing fits, and tells what comes nearest', async () => {
    const { fits, settings, estimate, alternatives } = await plan({ mode: 'train', batch: 4 }, 800);
    expect(fits).toBe(false);
    expect(settings.batch).toBe(1);
    expect(alternatives.every((one) => !one.fits)).toBe(true);
    expect(estimate.peak.leastCapacityBytes).toBeGreaterThan(800);
  });

  it('tells what fits by the estimate but not by the upper end of its interval', async () => {
    const wishes = {
      mode: 'train',
      batch: 1,
      precision: 'amp-bf16',
      optimizer: 'adamw',
      checkpointing: false,
      offload: 'none',
      loraRank: 4,
    } as const;
    const { peak } = fakeEstimate(wishes);
    const { fits, surely, notes } = await plan(wishes, peak.leastCapacityBytes);
    expect({ fits, surely }).toEqual({ fits: true, surely: false });
    expect(notes[0]).toContain('not by the upper end of its interval');
  });

  it('grows the batch where none was named', async () => {
    const { settings, notes } = await plan({ mode: 'train' }, 30_000);
    expect(settings.batch).toBeGreaterThan(100);
    expect(settings.accumulation).toBe(1);
    expect(notes.join()).toContain('No batch was given');
  });

  it('rounds weights for inference, and moves layers to the host as the last resort', async () => {
    expect((await plan({ mode: 'infer', batch: 1 }, 3000)).settings.quantization).toBe('none');
    expect((await plan({ mode: 'infer', batch: 1 }, 1250)).settings).toMatchObject({
      quantization: 'int8',
      optimizer: 'none',
    });
    const last = await plan({ mode: 'infer', batch: 1 }, 600);
    expect(last.settings).toMatchObject({ quantization: 'int4_offload', offload: 'weights' });
    expect(last.fits).toBe(true);
    expect(last.hostBytes).toBeGreaterThan(0);
  });

  it('shares states out over GPUs, and the batch with them', async () => {
    const { settings } = await plan({ mode: 'train', batch: 32, offload: 'none' }, 8600, 4);
    expect(settings).toMatchObject({ gpus: 4, zero: 2, precision: 'amp-bf16' });
    expect(settings.batch * settings.accumulation * settings.gpus).toBe(32);
    await expect(plan({ mode: 'train', batch: 30 }, 8000, 4)).rejects.toMatchObject({
      code: 'bad-usage',
    });
  });

  it.each([
    { mode: 'train', quantization: 'int4_offload' },
    { mode: 'train', quantization: 'cpu' },
    { mode: 'infer', offload: 'optimizer' },
    { mode: 'train', offload: 'weights' },
    { mode: 'train', zero: 2 },
  ] as const)('refuses %j', async (wishes) => {
    await expect(plan(wishes, 9000)).rejects.toMatchObject({ code: 'bad-usage' });
  });

  it('goes on without a configuration that cannot be estimated, and says so', async () => {
    const refuse = (when: (workload: Workload) => boolean) => async (workload: Workload) => {
      if (!when(workload)) return fakeEstimate(workload);
      throw new Failure({ kind: 'input', code: 'no', fact: 'No such thing.', next: 'None.' });
    };
    const small = { ...facts, capacityBytes: 2000 };
    const wishes = { mode: 'train', batch: 1 } as const;
    const found = await planSettings(wishes, small, {
      judge: refuse(({ quantization }) => quantization === 'int8'),
    });
    expect(found.settings.quantization).toBe('int4');
    expect(found.notes).toContain('One configuration could not be estimated: No such thing.');
    // Where nothing works there is nothing to plan with.
    await expect(planSettings(wishes, small, { judge: refuse(() => true) })).rejects.toMatchObject({
      fact: 'No such thing.',
    });
  });

  it('asks the judge less where a guide knows what does not come near', async () => {
    const alone = fakeJudge();
    const guided = fakeJudge();
    const wishes = { mode: 'train', batch: 64 } as const;
    const blind = { ...facts, capacityBytes: 1500, parameters: undefined };
    const one = await planSettings(wishes, blind, alone);
    const guide = async (workload: Workload): Promise<Estimate> => fakeEstimate(workload);
    const other = await planSettings(wishes, blind, { ...guided, guide });
    expect(other.settings).toEqual(one.settings);
    expect(guided.asked.length).toBeLessThan(alone.asked.length / 2);
  });

  it('asks each thing once, and little', async () => {
    const { judge, asked } = fakeJudge();
    await planSettings(
      { mode: 'train', batch: 64 },
      { ...facts, capacityBytes: 18_000 },
      { judge },
    );
    expect(new Set(asked.map((workload) => JSON.stringify(workload))).size).toBe(asked.length);
    expect(asked.length).toBeLessThan(12);
  });
});

const someWishes = fc.record(
  {
    mode: fc.constant('train' as const),
    batch: fc.integer({ min: 1, max: 96 }),
    checkpointing: fc.boolean(),
    precision: fc.constantFrom('bf16' as const, 'amp-bf16' as const),
    optimizer: fc.constantFrom('adamw' as const, 'adafactor' as const),
    offload: fc.constantFrom('none' as const, 'optimizer' as const),
  },
  { requiredKeys: ['mode', 'batch'] },
);
const memories = fc.integer({ min: 500, max: 30_000 });

describe('every plan', () => {
  it('keeps the effective batch and all that was fixed, and fits where it says so', async () => {
    await fc.assert(
      fc.asyncProperty(someWishes, memories, async (wishes, capacityBytes) => {
        const { settings, fits, surely, estimate } = await plan(wishes, capacityBytes);
        expect(settings).toMatchObject(
          Object.fromEntries(Object.entries(wishes).filter(([key]) => !/mode|batch/.test(key))),
        );
        expect(settings.batch * settings.accumulation).toBe(wishes.batch);
        expect(estimate.peak.leastCapacityBytes <= capacityBytes).toBe(fits);
        if (surely) expect(estimate.interval.highBytes).toBeLessThanOrEqual(capacityBytes);
      }),
    );
  });

  it('skips nothing that is cheaper, gives up no more, and fits', async () => {
    await fc.assert(
      fc.asyncProperty(someWishes, memories, async (wishes, capacityBytes) => {
        const found = await plan(wishes, capacityBytes);
        fc.pre(found.surely);
        for (const other of found.alternatives.filter(({ surely }) => surely)) {
          expect(level(other.concession)).toBeGreaterThanOrEqual(level(found.concession));
          if (other.concession === found.concession) {
            expect(other.relativeCost).toBeGreaterThanOrEqual(found.relativeCost);
          }
        }
        // Not only among those shown: each configuration with the whole batch at once.
        for (const configuration of configurationsToTry(
          wishes,
          { ...facts, capacityBytes },
          callWording,
        )) {
          if (
            configuration.offload !== 'none' ||
            level(configuration.concession) >= level(found.concession)
          )
            continue;
          const { precision, optimizer, checkpointing, loraRank, quantization } = configuration;
          const workload = {
            mode: 'train' as const,
            batch: wishes.batch,
            precision,
            optimizer,
            checkpointing,
            loraRank,
            quantization,
          };
          const { interval } = fakeEstimate(workload);
          expect(interval.highBytes + 50).toBeGreaterThan(capacityBytes);
        }
      }),
    );
  });

  it('never gives up more or costs more with more memory', async () => {
    await fc.assert(
      fc.asyncProperty(
        someWishes,
        memories,
        fc.integer({ min: 0, max: 9000 }),
        async (wishes, capacityBytes, more) => {
          const little = await plan(wishes, capacityBytes);
          const much = await plan(wishes, capacityBytes + more);
          fc.pre(little.surely);
          expect(much.surely).toBe(true);
          expect(level(much.concession)).toBeLessThanOrEqual(level(little.concession));
          if (much.concession === little.concession) {
            expect(much.relativeCost).toBeLessThanOrEqual(little.relativeCost);
          }
        },
      ),
    );
  });
});
