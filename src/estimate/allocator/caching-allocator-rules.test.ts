import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GiB, KiB, MiB } from '../../units/bytes.js';
import { type CachingAllocator, createAllocator } from './caching-allocator.js';
import { ReferenceAllocator } from './reference-allocator-for-tests.js';
import { type AllocatorSettings, defaultSettings } from './settings.js';

const sizes = fc.oneof(
  fc.integer({ min: 1, max: 2 * MiB }),
  fc.integer({ min: 1, max: 80 }).map((count) => count * MiB),
  fc.constantFrom(512, KiB, 64 * KiB, MiB, MiB + 512, 2 * MiB, 9 * MiB, 10 * MiB, 12 * MiB),
);

type Step =
  | { readonly do: 'malloc'; readonly bytes: number; readonly stream: number }
  | { readonly do: 'free'; readonly which: number }
  | { readonly do: 'emptyCache' };

const stream = fc.constantFrom(0, 0, 0, 1);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 10,
    arbitrary: fc.record({ do: fc.constant('malloc' as const), bytes: sizes, stream }),
  },
  { weight: 8, arbitrary: fc.record({ do: fc.constant('free' as const), which: fc.nat(500) }) },
  { weight: 1, arbitrary: fc.constant({ do: 'emptyCache' as const }) },
);

const cap = fc.oneof(
  fc.constant('unlimited' as const),
  fc.integer({ min: 10, max: 400 }).map((count) => count * MiB),
);

function filled(steps: number): number[] {
  return Array.from({ length: 16 }, () => steps);
}

const settings: fc.Arbitrary<AllocatorSettings> = fc.record({
  addresses: fc.constantFrom('falling' as const, 'rising' as const),
  largeSegmentBytes: fc.constantFrom(20 * MiB, 12 * MiB),
  maxSplitBytes: fc.constantFrom('unlimited' as const, 20 * MiB, 50 * MiB),
  maxNonSplitRoundingBytes: fc.constantFrom(20 * MiB, 40 * MiB),
  roundupDivisions: fc.constantFrom([], filled(4), filled(1)),
  garbageCollectionThreshold: fc.constantFrom(0, 0.3, 0.8),
  expandableSegments: fc.boolean(),
  streamWork: fc.constantFrom('prompt' as const, 'awaited' as const),
  allowedBytes: cap,
  deviceBytes: cap,
  // Small enough that a random job can use up a whole expandable segment.
  deviceTotalBytes: fc.constantFrom(200 * MiB, 141 * GiB),
});

/** What must hold after every operation, whatever came before; gives what does not. */
function brokenRules(allocator: CachingAllocator): string[] {
  const broken: string[] = [];
  const segments = allocator.segments();
  let allocated = 0;
  let reserved = 0;
  for (const { address: start, bytes: backed, blocks } of segments) {
    let end = start;
    let before = '';
    for (const { address, bytes, state } of blocks) {
      if (address !== end || bytes <= 0) broken.push(`a gap before ${address}`);
      if (state !== 'allocated' && state === before) broken.push(`two ${state} at ${address}`);
      before = state;
      end += bytes;
      if (state === 'allocated') allocated += bytes;
    }
    reserved += backed;
  }
  const stats = allocator.stats();
  if (stats.allocatedBytes !== allocated) broken.push('allocated is not the sum of live blocks');
  if (stats.reservedBytes !== reserved) broken.push('reserved is not the sum of segments');
  if (stats.segments !== segments.length) broken.push('segments are miscounted');
  if (stats.peakReservedBytes < reserved) broken.push('reserved is above its peak');
  if (stats.peakAllocatedBytes < allocated) broken.push('allocated is above its peak');
  return broken;
}

describe('any sequence of requests', () => {
  it('agrees with the plain implementation, block by block', () => {
    fc.assert(
      fc.property(settings, fc.array(step, { maxLength: 80, size: 'max' }), (chosen, steps) => {
        const allocator = createAllocator(chosen);
        const reference = new ReferenceAllocator(chosen);
        const live: { handle: number; id: number }[] = [];
        for (const one of steps) {
          if (one.do === 'malloc') {
            const handle = allocator.malloc(one.bytes, one.stream);
            const id = reference.malloc(one.bytes, one.stream);
            expect(typeof handle === 'number').toBe(typeof id === 'number');
            if (typeof handle === 'number' && typeof id === 'number') live.push({ handle, id });
          } else if (one.do === 'free') {
            const [gone] = live.splice(one.which % Math.max(live.length, 1), 1);
            if (gone === undefined) continue;
            allocator.free(gone.handle);
            reference.free(gone.id);
          } else {
            allocator.emptyCache();
            reference.emptyCache();
          }
          expect(brokenRules(allocator)).toEqual([]);
          expect(layoutOf(allocator)).toEqual(layoutOfReference(reference));
          expect(allocator.retries).toBe(reference.retries);
        }
      }),
      { numRuns: 150 },
    );
  });

  it('keeps its invariants where the driver chooses the addresses, and never overlaps', () => {
    fc.assert(
      fc.property(cap, fc.array(step, { maxLength: 200, size: 'max' }), (allowedBytes, steps) => {
        const allocator = createAllocator({ ...defaultSettings, allowedBytes });
        const live: number[] = [];
        for (const one of steps) {
          if (one.do === 'malloc') {
            const handle = allocator.malloc(one.bytes, one.stream);
            if (typeof handle === 'number') live.push(handle);
          } else if (one.do === 'free') {
            const [gone] = live.splice(one.which % Math.max(live.length, 1), 1);
            if (gone !== undefined) allocator.free(gone);
          } else {
            allocator.emptyCache();
          }
          expect(brokenRules(allocator)).toEqual([]);
          const segments = allocator.segments();
          const overlaps = segments.filter(({ address }, at) => {
            const below = segments[at - 1];
            return below !== undefined && below.address + below.bytes > address;
          });
          expect(overlaps).toEqual([]);
        }
      }),
      { numRuns: 40 },
    );
  });

  it('gives everything back once all is freed', () => {
    fc.assert(
      fc.property(settings, fc.array(sizes, { maxLength: 60, size: 'max' }), (chosen, requests) => {
        const allocator = createAllocator(chosen);
        const answers = requests.map((bytes) => allocator.malloc(bytes));
        for (const answer of answers) if (typeof answer === 'number') allocator.free(answer);
        allocator.emptyCache();
        expect(allocator.stats()).toMatchObject({ allocatedBytes: 0, reservedBytes: 0 });
        // Address space of an expandable segment may stay; it costs nothing.
        expect(allocator.segments().filter(({ bytes }) => bytes > 0)).toEqual([]);
      }),
    );
  });

  it('never passes its cap', () => {
    fc.assert(
      fc.property(settings, fc.array(sizes, { maxLength: 60, size: 'max' }), (chosen, requests) => {
        const allocator = createAllocator({ ...chosen, deviceBytes: chosen.allowedBytes });
        for (const bytes of requests) allocator.malloc(bytes);
        const limit = chosen.allowedBytes === 'unlimited' ? Infinity : chosen.allowedBytes;
        expect(allocator.stats().peakReservedBytes).toBeLessThanOrEqual(limit);
      }),
    );
  });
});

function layoutOf(allocator: CachingAllocator): unknown {
  return allocator.segments().map(({ pool, expandable, blocks }) => ({ pool, expandable, blocks }));
}

function layoutOfReference({ segments }: ReferenceAllocator): unknown {
  return segments
    .toSorted((a, b) => (a.blocks[0]?.address ?? 0) - (b.blocks[0]?.address ?? 0))
    .map(({ small, expandable, blocks }) => ({
      pool: small ? 'small' : 'large',
      expandable,
      blocks: blocks.map(({ address, bytes, state }) => ({ address, bytes, state })),
    }));
}
