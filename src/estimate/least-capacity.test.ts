import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MiB } from '../units/bytes.js';
import { leastCapacity } from './least-capacity.js';
import { replay } from './trace/event-replay.js';
import { type EventStream, EventStreamBuilder } from './trace/event-stream.js';
import { recordedRuns } from './trace/traces-for-tests.js';

/** Requests of some MiB each; a negative number frees one of those still held. */
function streamOf(steps: readonly number[]): EventStream {
  const builder = new EventStreamBuilder();
  const held: number[] = [];
  for (const step of steps) {
    if (step > 0) held.push(builder.alloc(step * MiB));
    else for (const slot of held.splice(-step % Math.max(held.length, 1), 1)) builder.free(slot);
  }
  return builder.finish();
}

function works(stream: EventStream, cap: number, expandableSegments: boolean): boolean {
  const settings = { allowedBytes: cap, deviceBytes: cap, expandableSegments };
  return replay(stream, settings).outOfMemory === undefined;
}

describe('leastCapacity', () => {
  it('is less than the usual peak when cached segments can be given back', async () => {
    const stream = streamOf([30, 0, 50, 0, 40]);
    expect(await leastCapacity(stream)).toMatchObject({
      safeBytes: 50 * MiB,
      luckyBytes: 50 * MiB,
      uncappedBytes: 80 * MiB,
      complete: true,
    });
  });

  it('finds what trying every cap finds', async () => {
    const steps = fc.array(fc.integer({ min: -9, max: 45 }), {
      minLength: 1,
      maxLength: 40,
      size: 'max',
    });
    await fc.assert(
      fc.asyncProperty(steps, fc.boolean(), async (list, expandableSegments) => {
        const stream = streamOf(list);
        const found = await leastCapacity(stream, { expandableSegments });
        let safe = found.uncappedBytes;
        let lucky = safe;
        let failed = false;
        // Totals are multiples of 2 MiB, so nothing changes between two of them.
        for (let cap = found.uncappedBytes; cap >= 0; cap -= 2 * MiB) {
          const fits = works(stream, cap, expandableSegments);
          if (!fits) failed = true;
          else lucky = cap;
          if (!failed) safe = cap;
        }
        expect(found).toMatchObject({ safeBytes: safe, luckyBytes: lucky, complete: true });
        const sooner = await leastCapacity(stream, { expandableSegments }, { safeOnly: true });
        expect(sooner.safeBytes).toBe(safe);
        expect(sooner.replays).toBeLessThanOrEqual(found.replays);
      }),
      { numRuns: 60 },
    );
  });

  it('takes wide steps where a search is long, and ends at a cap that works above one that does not', async () => {
    // Each batch is larger than those before it, so that nothing of theirs fits.
    const growing = Array.from({ length: 60 }, (_, at) => [20 + 2 * at, 0]).flat();
    const stream = streamOf([...growing, 300, 200]);
    const exact = await leastCapacity(stream, {}, { safeOnly: true });
    const wide = await leastCapacity(stream, {}, { safeOnly: true, exactEvents: 0 });
    expect(wide.replays).toBeLessThan(exact.replays / 2);
    expect(wide.stepBytes).toBeGreaterThan(1);
    expect(wide.safeBytes).toBe(exact.safeBytes);
    expect(works(stream, wide.safeBytes - 1, false)).toBe(false);
  });

  it('decides caps down to a segment where nearly each is a case of its own', async () => {
    // A text that grows by a token: each request is a little larger than what was given back.
    const growing = Array.from({ length: 400 }, (_, at) => [20 + at / 2, 0]).flat();
    const stream = streamOf([...growing, 300, 200]);
    const exact = await leastCapacity(stream, {}, { safeOnly: true });
    const long = await leastCapacity(stream, {}, { safeOnly: true, exactEvents: 1 });
    expect(exact.replays).toBeGreaterThan(200);
    expect(long.replays).toBeLessThan(120);
    expect(long.safeBytes - exact.safeBytes).toBeLessThanOrEqual(4 * MiB);
    expect(works(stream, long.safeBytes, true)).toBe(true);
  });

  it('lets others have their turn between two replays', async () => {
    let turns = 0;
    let isOver = false;
    const count = () => {
      turns += 1;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    const { replays } = await leastCapacity(streamOf([30, 0, 50, 0, 40, 0, 70, 0, 20]));
    isOver = true;
    expect(replays).toBeGreaterThan(2);
    expect(turns).toBeGreaterThanOrEqual(replays - 1);
  });

  it('tries caps on a grid when garbage is collected', async () => {
    const stream = streamOf([30, 0, 50, 0, 40]);
    const found = await leastCapacity(stream, { garbageCollectionThreshold: 0.5 });
    expect(found.stepBytes).toBe(2 * MiB);
    expect(found.luckyBytes).toBe(50 * MiB);
    expect(found.safeBytes).toBeGreaterThanOrEqual(found.luckyBytes);
  });

  it('knows that more is not always better: a recorded job', async () => {
    const run = recordedRuns('known').find(({ id }) => id.startsWith('vit-base/'));
    if (run === undefined) throw new Error('no such run');
    const { safeBytes, luckyBytes } = await leastCapacity(run.stream);
    expect(luckyBytes).toBeLessThan(safeBytes);
    expect(works(run.stream, safeBytes, false)).toBe(true);
    expect(works(run.stream, safeBytes - 1, false)).toBe(false);
    expect(works(run.stream, luckyBytes, false)).toBe(true);
    expect(works(run.stream, luckyBytes - 1, false)).toBe(false);
  });
});
