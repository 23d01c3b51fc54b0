import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { MiB } from '../../units/bytes.js';
import { parseAllocConf } from './alloc-conf.js';
import { createAllocator } from './caching-allocator.js';
import { blockSizeFor } from './sizes.js';

describe('parseAllocConf', () => {
  it('reads every option that changes what is reserved', () => {
    const conf = parseAllocConf(
      'backend:native, max_split_size_mb:128,garbage_collection_threshold:0.8,expandable_segments:True,max_non_split_rounding_mb:32,roundup_power2_divisions:4',
    );
    expect(conf).toEqual({
      settings: {
        maxSplitBytes: 128 * MiB,
        garbageCollectionThreshold: 0.8,
        expandableSegments: true,
        maxNonSplitRoundingBytes: 32 * MiB,
        roundupDivisions: Array(16).fill(4),
      },
      ignored: [],
    });
  });

  it('takes an empty setting, and the last of two', () => {
    expect(parseAllocConf('')).toEqual({ settings: {}, ignored: [] });
    const twice = 'expandable_segments:True,expandable_segments:False';
    expect(parseAllocConf(twice).settings).toEqual({ expandableSegments: false });
  });

  it('names the options it leaves alone', () => {
    expect(parseAllocConf('pinned_use_background_threads:True').ignored).toEqual([
      'pinned_use_background_threads',
    ]);
  });

  it('reads divisions by size: the first holds below, ">" above', () => {
    const { roundupDivisions = [] } = parseAllocConf(
      'roundup_power2_divisions:[256:1,512:2,1024:4,>:8]',
    ).settings;
    expect(roundupDivisions).toEqual([1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8]);
    // 1200 MiB lies between 1 and 2 GiB, where steps are a quarter of 1 GiB.
    expect(blockSizeFor(1200 * MiB, roundupDivisions)).toBe(1280 * MiB);
    expect(blockSizeFor(2048 * MiB, roundupDivisions)).toBe(2048 * MiB);
    // One division means: plain rounding.
    expect(blockSizeFor(300 * MiB + 1, roundupDivisions)).toBe(300 * MiB + 512);
  });

  it.each([
    'max_split_size_mb:10',
    'max_split_size_mb:1e3',
    'max_split_size_mb',
    'max_split_size_mb:',
    'garbage_collection_threshold:1',
    'garbage_collection_threshold:0',
    'expandable_segments:true',
    'roundup_power2_divisions:3',
    'roundup_power2_divisions:[256:3]',
    'roundup_power2_divisions:[300:2]',
    'roundup_power2_divisions:[256:2:2]',
    'roundup_power2_divisions:[256:2',
    'backend:cudaMallocAsync',
    'something_else:1',
    'max_split_size_mb:128 garbage_collection_threshold:0.8',
    ',max_split_size_mb:128',
    'x'.repeat(5000),
  ])('refuses %s', (text) => {
    expect(() => parseAllocConf(text)).toThrow(Failure);
  });

  it('answers any text with settings that work, or with one clear error', () => {
    const piece = fc.constantFrom(
      ...'max_split_size_mb garbage_collection_threshold roundup_power2_divisions'.split(' '),
      ...'expandable_segments backend native True False : , [ ] > 0 1 2 64 256 0.5 -1'.split(' '),
    );
    const text = fc.oneof(
      fc.string({ maxLength: 80 }),
      fc.array(piece, { maxLength: 20, size: 'max' }).map((pieces) => pieces.join('')),
    );
    fc.assert(
      fc.property(text, (conf) => {
        let settings: ReturnType<typeof parseAllocConf>['settings'];
        try {
          settings = parseAllocConf(conf).settings;
        } catch (error) {
          expect(error).toBeInstanceOf(Failure);
          return;
        }
        expect(createAllocator(settings).malloc(3 * MiB)).toBeTypeOf('number');
      }),
      { numRuns: 2000 },
    );
  });
});
