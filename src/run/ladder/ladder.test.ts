import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fitMemory, fittingBatch } from '../../batches/sizes/fit.js';
import { smallerMicrobatch } from '../../batches/sizes/smaller-microbatch.js';
import { GiB, MiB } from '../../units/bytes.js';
import { type Placeholder, placeholders } from '../placeholders.js';
import type { Attempt, OutOfMemory, RunSettings } from '../types.js';
import { climb, climbed, notBefore, type RecoveryInput, splitBatch } from './climb.js';
import { decideStep, hooks, type StepFailure } from './in-process.js';

const settings: RunSettings = {
  batch_size: 32,
  accumulation: 1,
  checkpointing: false,
  precision: 'fp32',
  offload: false,
  device: 'gpu:0',
};
const outOfMemory: OutOfMemory = {
  kind: 'cuda',
  askedBytes: 'unknown',
  freeBytes: 'unknown',
  totalBytes: 'unknown',
  message: '',
};
const input: RecoveryInput = {
  settings,
  outOfMemory,
  peakBytes: 8 * GiB,
  limitBytes: 8 * GiB,
  baseBytes: 'unknown',
  earlier: [],
  measured: [],
  declared: new Set<Placeholder>(placeholders),
  batch: 32,
  savedProgress: false,
  canSpill: false,
};

function attempt(batch: number, peakBytes: number, failed: boolean): Attempt {
  return {
    number: 1,
    settings: { ...settings, batch_size: batch },
    command: [],
    startedAt: '',
    endedAt: '',
    exitCode: failed ? 1 : 0,
    outOfMemory: failed ? outOfMemory : null,
    rungs: [],
    peakBytes,
    source: 'measured',
    peakFrom: 'sdk',
    snapshot: null,
    limit: { bytes: 'none', by: 'none', why: '' },
  };
}

describe('the rung spill', () => {
  const asking = (askedBytes: number) => ({ ...outOfMemory, askedBytes });
  const tried = (askedBytes: number): RecoveryInput => {
    const first = { ...input, canSpill: true, outOfMemory: asking(GiB) };
    const next = climb(first);
    const failed = {
      ...attempt(32, GiB, true),
      rungs: [{ rung: 'spill', why: '', atSeconds: 1 } as const],
    };
    return {
      ...first,
      outOfMemory: asking(askedBytes),
      settings: next?.settings ?? settings,
      earlier: [failed],
    };
  };

  it('comes before the batch is touched, with room for the request that failed', () => {
    const next = climb({ ...input, canSpill: true, outOfMemory: asking(GiB) });
    expect(next).toMatchObject({ rung: 'spill', settings: { batch_size: 32, accumulation: 1 } });
    expect(next?.settings.spill_headroom_bytes).toBe(GiB);
    expect(next?.why).toContain('with 1.0 GiB kept free');
    expect(climb({ ...input, outOfMemory: asking(GiB) })?.rung).toBe('smaller-microbatch');
    expect(climb({ ...input, canSpill: true })?.settings.spill_headroom_bytes).toBe(0);
  });

  it('is climbed once more for a larger request, and then left for the next', () => {
    expect(climb(tried(GiB))?.rung).toBe('smaller-microbatch');
    const again = climb(tried(2 * GiB));
    expect(again).toMatchObject({ rung: 'spill', settings: { spill_headroom_bytes: 2 * GiB } });
    const { earlier } = tried(GiB);
    const third = { ...tried(3 * GiB), earlier: [...earlier, ...earlier] };
    expect(climb(third)?.rung).toBe('smaller-microbatch');
  });

  it('serves a plain loop, which can be told nothing else', () => {
    const plain = { ...input, declared: new Set<Placeholder>(), batch: 'unknown' as const };
    expect(climb(plain)).toBeUndefined();
    expect(climb({ ...plain, canSpill: true })?.rung).toBe('spill');
  });
});

describe('fitMemory', () => {
  it('finds base and slope again, whatever they are', () => {
    const sizes = fc.uniqueArray(fc.integer({ min: 1, max: 512 }), { minLength: 2, maxLength: 6 });
    fc.assert(
      fc.property(
        fc.nat(20_000),
        fc.integer({ min: 1, max: 900 }),
        sizes,
        (base, slope, batches) => {
          const line = fitMemory(
            batches.map((batch) => ({
              batch,
              peakBytes: (base + slope * batch) * MiB,
              isAtLeast: false,
            })),
          );
          expect(line?.perSampleBytes).toBeCloseTo(slope * MiB, -2);
          expect(line?.baseBytes).toBeCloseTo(base * MiB, -3);
        },
      ),
    );
  });

  it('does not let a failure, whose true need is higher, pull the line down', () => {
    const line = fitMemory([
      { batch: 4, peakBytes: 500, isAtLeast: false },
      { batch: 8, peakBytes: 900, isAtLeast: false },
      { batch: 100, peakBytes: 1000, isAtLeast: true },
    ]);
    expect(line).toEqual({ baseBytes: 100, perSampleBytes: 100, from: 'two sizes' });
    expect(line && fittingBatch(line, 1000)).toBe(9);
  });
});

describe('splitBatch', () => {
  it('never loses a sample, and adds none where a divisor lies near', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 5000 }),
        fc.integer({ min: 1, max: 5000 }),
        (batch, most) => {
          const { microbatch, accumulation, effective } = splitBatch(batch, most);
          expect(microbatch).toBeLessThanOrEqual(Math.max(1, Math.min(batch, most)));
          expect(microbatch * accumulation).toBe(effective);
          expect(effective).toBeGreaterThanOrEqual(batch);
          expect(effective - batch).toBeLessThan(accumulation);
        },
      ),
    );
    expect(splitBatch(32, 14)).toEqual({ microbatch: 8, accumulation: 4, effective: 32 });
    expect(splitBatch(127, 60)).toEqual({ microbatch: 43, accumulation: 3, effective: 129 });
  });
});

describe('smallerMicrobatch', () => {
  const failed = {
    microbatch: 32,
    peakBytes: 'unknown',
    askedBytes: 'unknown',
    limitBytes: GiB,
    baseBytes: 'unknown',
    earlier: [],
  } as const;

  it('always goes down, never below 1, and stops at 1', () => {
    const known = fc.oneof(fc.constant('unknown' as const), fc.nat(200 * GiB));
    fc.assert(
      fc.property(
        fc.integer({ min: 2, max: 4096 }),
        known,
        known,
        known,
        known,
        (microbatch, peakBytes, askedBytes, limitBytes, baseBytes) => {
          const most =
            smallerMicrobatch({
              microbatch,
              peakBytes,
              askedBytes,
              limitBytes,
              baseBytes,
              earlier: [],
            })?.most ?? 0;
          expect(most).toBeGreaterThanOrEqual(1);
          expect(most).toBeLessThan(microbatch);
        },
      ),
    );
    expect(smallerMicrobatch({ ...failed, microbatch: 1 })).toBeUndefined();
  });
});

describe('climb', () => {
  it('takes a smaller microbatch first and keeps the effective batch', () => {
    expect(climb(input)).toMatchObject({
      rung: 'smaller-microbatch',
      settings: { batch_size: 16, accumulation: 2 },
      why: expect.stringContaining('the effective batch stays 32'),
    });
  });

  it('says so when the effective batch cannot be kept to the sample', () => {
    const odd = { ...input, batch: 127, settings: { ...settings, batch_size: 127 } };
    expect(climb(odd)?.why).toContain('becomes 128, because 127 has no divisor near');
  });

  it('warns where the program cannot be told to accumulate', () => {
    const mute = { ...input, declared: new Set<Placeholder>(['batch_size']) };
    expect(climb(mute)?.why).toContain('no {accumulation}');
  });

  it('climbs rung after rung, each once, and then ends', () => {
    const taken: string[] = [];
    const from = (now: RecoveryInput): void => {
      const next = climb(now);
      if (next === undefined || taken.length > 50) return;
      taken.push(`${next.rung} ${next.settings.batch_size}`);
      const rungs = [{ rung: next.rung, why: '', atSeconds: 0 }];
      const earlier = [{ ...attempt(1, 8 * GiB, true), rungs }];
      // A restart that makes no step is the last one.
      const savedProgress = next.rung !== 'restart-from-checkpoint';
      from({ ...input, settings: next.settings, savedProgress, earlier });
    };
    from(input);
    expect(taken).toEqual([
      'smaller-microbatch 16',
      'smaller-microbatch 8',
      'smaller-microbatch 4',
      'smaller-microbatch 2',
      'smaller-microbatch 1',
      'checkpointing 1',
      'lower-precision 1',
      'cpu-offload 1',
      'restart-from-checkpoint 1',
      'host 1',
      'restart-from-checkpoint 1',
    ]);
  });

  it('restarts from the checkpoint as long as each restart makes progress, up to a bound', () => {
    const one = {
      ...settings,
      batch_size: 1,
      checkpointing: true,
      precision: 'bf16',
      offload: true,
    };
    const last = { ...input, settings: { ...one, device: 'host' }, savedProgress: true };
    const rungs = [{ rung: 'restart-from-checkpoint', why: '', atSeconds: 9 }] as const;
    const restarts = (count: number) =>
      Array.from({ length: count }, () => ({ ...attempt(1, 8 * GiB, true), rungs }));
    expect(climb({ ...last, earlier: restarts(1) })?.rung).toBe('restart-from-checkpoint');
    expect(climb({ ...last, earlier: restarts(99) })?.rung).toBe('restart-from-checkpoint');
    expect(climb({ ...last, earlier: restarts(100) })).toBeUndefined();
    expect(climb({ ...last, earlier: restarts(1), savedProgress: false })).toBeUndefined();
  });

  it('climbs nothing that the program did not declare', () => {
    const none = { ...input, declared: new Set<Placeholder>(), batch: 'unknown' } as const;
    expect(climb(none)).toBeUndefined();
  });

  it('uses sizes of earlier attempts only where all else was the same', () => {
    const earlier = [attempt(4, 2 * GiB, false), attempt(8, 3 * GiB, false)];
    expect(climb({ ...input, earlier })?.settings.batch_size).toBe(16);
    expect(climb({ ...input, earlier })?.why).toContain('1.0 GiB and 256 MiB a sample');
    for (const changed of [
      { checkpointing: true },
      { precision: 'bf16' },
      { offload: true },
      { device: 'gpu:1' },
    ]) {
      const next = climb({ ...input, settings: { ...settings, ...changed }, earlier });
      expect([changed, next?.settings.batch_size]).toEqual([changed, 16]);
      expect(next?.why).toContain('needed more than');
    }
  });
});

describe('memory that ran out in pieces', () => {
  const message =
    'Tried to allocate 2.00 GiB. Of the allocated memory 9.00 GiB is allocated by PyTorch, and 3.00 GiB is reserved by PyTorch but unallocated.';
  const inPieces = { ...outOfMemory, askedBytes: 2 * GiB, message };

  it('gives the next attempt expandable segments, and says so', () => {
    const next = climb({ ...input, outOfMemory: inPieces });
    expect(next).toMatchObject({ settings: { batch_size: 16, expandable_segments: true } });
    expect(next?.why).toContain('PyTorch gets expandable segments.');
  });

  it.each([
    ['more was asked for than was free', { ...inPieces, askedBytes: 4 * GiB }],
    ['it is not told what was asked for', { ...inPieces, askedBytes: 'unknown' as const }],
    ['it is not told what was free', { ...inPieces, message: 'CUDA out of memory' }],
  ])('changes nothing else where %s', (_, found) => {
    expect(climb({ ...input, outOfMemory: found })?.settings).not.toHaveProperty(
      'expandable_segments',
    );
  });
});

describe('decideStep', () => {
  const failure: StepFailure = {
    microbatch: 8,
    askedBytes: GiB,
    peakBytes: 7 * GiB,
    limitBytes: 8 * GiB,
    baseBytes: 'unknown',
    cachedBytes: 0,
    hooks: new Set(hooks),
    climbed: new Set(),
    attempt: 1,
    gaveBackCache: false,
    othersHold: false,
    observations: [],
  };

  it('gives back the cache first where that is enough, once', () => {
    const cached = { ...failure, cachedBytes: 2 * GiB };
    expect(decideStep(cached)).toMatchObject({ rung: 'give-back-cache', microbatch: 8 });
    expect(decideStep({ ...cached, gaveBackCache: true })).toMatchObject({
      rung: 'smaller-microbatch',
      microbatch: 4,
    });
  });

  it('climbs the hooks at one sample, and raises when they are used up', () => {
    const one = { ...failure, microbatch: 1, attempt: 2 };
    expect(decideStep(one).rung).toBe('checkpointing');
    expect(decideStep({ ...one, climbed: new Set(['checkpointing'] as const) }).rung).toBe(
      'lower-precision',
    );
    expect(decideStep({ ...one, hooks: new Set(['microbatch'] as const) }).action).toBe('raise');
  });
});

describe('the time of a rung that was climbed without a supervisor', () => {
  const earlier = [{ rung: 'give-back-cache', why: '', atSeconds: 1.16 }] as const;

  it('is not before what the supervisor before it wrote', () => {
    expect(notBefore(1.045, earlier)).toBe(1.16);
    expect(notBefore(2.5, earlier)).toBe(2.5);
  });

  it('is written to the millisecond', () => {
    const rung = { rung: 'host', why: 'no room' } as const;
    expect(climbed({ ...rung }, 12.345_678)).toEqual({ ...rung, atSeconds: 12.346 });
  });

  it('is not before the start of the attempt', () => {
    expect(notBefore(-0.01, [])).toBe(0);
  });
});
