import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Failure } from '../../../failure.js';
import { MiB } from '../../../units/bytes.js';
import { withReusedSlots } from '../../least-capacity.js';
import { replay } from '../event-replay.js';
import { EventStreamBuilder } from '../event-stream.js';
import { anyStream } from './streams-for-tests.js';

describe('withReusedSlots', () => {
  it('needs as many slots as allocations live at once', () => {
    const builder = new EventStreamBuilder();
    const kept = builder.alloc(MiB);
    for (let step = 0; step < 100; step += 1) builder.free(builder.alloc(MiB));
    builder.free(kept);
    expect(withReusedSlots(builder.finish()).slots).toBe(2);
  });

  it('changes nothing that an allocator does', () => {
    const cap = fc.integer({ min: 1, max: 500 }).map((count) => count * MiB);
    fc.assert(
      fc.property(anyStream, cap, (stream, allowedBytes) => {
        for (const settings of [{}, { allowedBytes }, { streamWork: 'awaited' as const }]) {
          const { allocator: own, ...before } = replay(stream, settings);
          const { allocator, ...after } = replay(withReusedSlots(stream), settings);
          expect(after).toEqual(before);
          expect(allocator.segments()).toEqual(own.segments());
        }
      }),
    );
  });

  it('refuses a second free as before', () => {
    const builder = new EventStreamBuilder();
    const slot = builder.alloc(1);
    builder.free(slot);
    builder.alloc(1);
    builder.free(slot);
    expect(() => replay(withReusedSlots(builder.finish()))).toThrow(Failure);
  });
});
