import { describe, expect, it } from 'vitest';
import { MiB } from '../../units/bytes.js';
import { replay } from './event-replay.js';
import { type EventStream, EventStreamBuilder } from './event-stream.js';
import { PhaseWatch } from './phase-peaks.js';

function phasePeaks(stream: EventStream, watch = new PhaseWatch()) {
  return watch.peaksOf(replay(stream, {}, watch.onMark).allocator);
}

describe('PhaseWatch', () => {
  it('tells the highest figures of each phase, and which one makes the peak', () => {
    const builder = new EventStreamBuilder();
    builder.mark('phase:building');
    builder.alloc(40 * MiB);
    builder.mark('phase:steady steps');
    const step = builder.alloc(100 * MiB);
    builder.free(step);
    builder.mark('phase:evaluation');
    const evaluation = builder.alloc(60 * MiB);
    builder.free(evaluation);
    builder.mark('phase:steady steps');
    builder.alloc(20 * MiB);
    expect(phasePeaks(builder.finish())).toEqual([
      {
        phase: 'building',
        allocatedBytes: 40 * MiB,
        reservedBytes: 40 * MiB,
        makesPeak: false,
      },
      {
        phase: 'steady steps',
        allocatedBytes: 140 * MiB,
        reservedBytes: 140 * MiB,
        makesPeak: true,
      },
      {
        phase: 'evaluation',
        allocatedBytes: 100 * MiB,
        reservedBytes: 140 * MiB,
        makesPeak: false,
      },
    ]);
  });

  it('names the phase that reached the peak, though an earlier one comes again after it', () => {
    const builder = new EventStreamBuilder();
    builder.mark('phase:steady steps');
    builder.free(builder.alloc(40 * MiB));
    builder.mark('phase:evaluation');
    builder.free(builder.alloc(100 * MiB));
    builder.mark('phase:steady steps');
    builder.free(builder.alloc(40 * MiB));
    const making = phasePeaks(builder.finish()).filter(({ makesPeak }) => makesPeak);
    expect(making.map(({ phase }) => phase)).toEqual(['evaluation']);
  });

  it('has none where nothing was marked', () => {
    expect(phasePeaks(new EventStreamBuilder().finish())).toEqual([]);
  });

  it('leaves the peaks of a replay as they are, and keeps several replays apart', () => {
    const builder = new EventStreamBuilder();
    builder.mark('phase:building');
    builder.free(builder.alloc(100 * MiB));
    builder.emptyCache();
    builder.mark('phase:steady steps');
    builder.alloc(40 * MiB);
    const stream = builder.finish();
    const watch = new PhaseWatch();
    const { allocator: _, ...watched } = replay(stream, {}, watch.onMark);
    expect(replay(stream)).toMatchObject(watched);
    expect(watched).toMatchObject({ peakReservedBytes: 100 * MiB, peakAllocatedAt: 0 });
    expect(phasePeaks(stream, watch)).toEqual(phasePeaks(stream));
  });
});
