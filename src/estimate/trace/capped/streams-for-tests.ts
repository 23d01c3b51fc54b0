import * as fc from 'fast-check';
import { KiB, MiB } from '../../../units/bytes.js';
import { type EventStream, EventStreamBuilder } from '../event-stream.js';

const sizes = fc.oneof(
  fc.integer({ min: 1, max: 2 * MiB }),
  fc.integer({ min: 1, max: 80 }).map((count) => count * MiB),
  fc.constantFrom(512, 64 * KiB, MiB, MiB + 512, 9 * MiB, 10 * MiB, 12 * MiB),
);

const step = fc.oneof(
  { weight: 12, arbitrary: fc.record({ bytes: sizes, stream: fc.constantFrom(0, 0, 0, 1) }) },
  { weight: 10, arbitrary: fc.record({ frees: fc.nat(500) }) },
  { weight: 2, arbitrary: fc.record({ spareBytes: sizes }) },
  { weight: 1, arbitrary: fc.record({ uses: fc.nat(500) }) },
  { weight: 1, arbitrary: fc.record({ waits: fc.nat(20) }) },
  { weight: 1, arbitrary: fc.record({ takes: fc.constantFrom(2 * MiB, 64 * MiB) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      what: fc.constantFrom('emptyCache' as const, 'resetPeaks' as const, 'firstKernel' as const),
    }),
  },
);

/** Streams of any events, in which each free is of what is allocated. */
export const anyStream: fc.Arbitrary<EventStream> = fc
  .array(step, { minLength: 1, maxLength: 300, size: 'max' })
  .map((steps) => {
    const builder = new EventStreamBuilder();
    const held: { slot: number; spare: boolean }[] = [];
    let ran = false;
    for (const one of steps) {
      if ('bytes' in one) held.push({ slot: builder.alloc(one.bytes, one.stream), spare: false });
      else if ('spareBytes' in one) {
        held.push({ slot: builder.allocSpare(one.spareBytes), spare: true });
      } else if ('waits' in one) builder.wait(one.waits);
      else if ('takes' in one) builder.takeAddresses(one.takes);
      else if ('what' in one) {
        // The first kernel comes once.
        if (one.what !== 'firstKernel' || !ran) builder[one.what]();
        ran ||= one.what === 'firstKernel';
      } else if (held.length === 0) continue;
      else if ('uses' in one) {
        const used = held[one.uses % held.length];
        if (used?.spare === false) builder.use(used.slot);
      } else for (const { slot } of held.splice(one.frees % held.length, 1)) builder.free(slot);
    }
    return builder.finish();
  });
