import { describe, expect, it } from 'vitest';
import { MiB } from '../../units/bytes.js';
import { EventStreamBuilder } from './event-stream.js';
import { phasePeaks } from './phase-peaks.js';

describe('phasePeaks', () => {
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
});
