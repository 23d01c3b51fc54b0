import * as fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { MiB } from '../../../units/bytes.js';
import type { AllocatorSettings } from '../../allocator/settings.js';
import { CappedReplays } from '../../least-capacity.js';
import { ReplayRun, replay } from '../event-replay.js';
import { EventStreamBuilder } from '../event-stream.js';
import { anyStream } from './streams-for-tests.js';

describe('ReplayRun', () => {
  it('ends alike where it went on from a copy, and leaves the copied one as it was', () => {
    const settings: fc.Arbitrary<Partial<AllocatorSettings>> = fc.record({
      addresses: fc.constantFrom(
        'driver' as const,
        'fresh-driver' as const,
        'falling' as const,
        'rising' as const,
      ),
      streamWork: fc.constantFrom('prompt' as const, 'awaited' as const),
      maxSplitBytes: fc.constantFrom('unlimited' as const, 20 * MiB),
      allowedBytes: fc.constantFrom('unlimited' as const, 200 * MiB),
    });
    fc.assert(
      fc.property(anyStream, settings, fc.nat(300), (stream, given, cut) => {
        const { allocator: own, ...whole } = replay(stream, given);
        const first = new ReplayRun(stream, given);
        first.until(Math.min(cut, stream.length));
        const copies = [first.copy(), first];
        for (const run of copies) {
          if (run.outOfMemory === undefined) run.until(stream.length);
          const { allocator, ...ended } = run.result();
          expect(ended).toEqual(whole);
          expect(allocator.segments()).toEqual(own.segments());
          expect(allocator.stats()).toEqual(own.stats());
        }
      }),
    );
  });
});

describe('CappedReplays', () => {
  it('finds under each cap what a replay from the beginning finds', () => {
    const caps = fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(anyStream, caps, fc.integer({ min: 1, max: 40 }), (stream, steps, every) => {
        const replays = new CappedReplays(stream, {}, 0, every);
        // Down from the peak, and after a cap that fails up again, as the search does.
        let safe = replay(stream).allocator.memory.maxGrantedBytes;
        for (const step of steps) {
          const cap = Math.max(0, safe - step * MiB + 1);
          const { outOfMemory, allocator } = replay(stream, {
            allowedBytes: cap,
            deviceBytes: cap,
          });
          const found = replays.under(cap);
          expect(found).toEqual({
            fits: outOfMemory === undefined,
            maxGrantedBytes: allocator.memory.maxGrantedBytes,
          });
          if (found.fits) safe = found.maxGrantedBytes;
        }
      }),
    );
  });

  it('does not replay again what comes before the first request that a cap refuses', () => {
    const builder = new EventStreamBuilder();
    for (let step = 0; step < 100; step += 1) builder.free(builder.alloc(20 * MiB));
    builder.alloc(100 * MiB);
    const replays = new CappedReplays(builder.finish(), {}, 20 * MiB, 10);
    const until = vi.spyOn(ReplayRun.prototype, 'until');
    expect(replays.under(120 * MiB)).toEqual({ fits: true, maxGrantedBytes: 120 * MiB });
    expect(until).toHaveBeenCalledTimes(21);
    until.mockClear();
    expect(replays.under(100 * MiB)).toEqual({ fits: true, maxGrantedBytes: 100 * MiB });
    expect(until).toHaveBeenCalledTimes(1);
    until.mockRestore();
  });
});
