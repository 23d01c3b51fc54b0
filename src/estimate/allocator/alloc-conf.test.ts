import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { MiB } from '../../units/bytes.js';
import { parseAllocConf } from './alloc-conf.js';
import { createAllocator } from './caching-allocator.js';
import { blockSizeFor } from './settings.js';

describe('parseAllocConf', () => {
  it('reads every option that changes what is reserved', () => {
    const conf = parseAllocConf(
      'backend:native, max_split_size_mb:128,garbage_collection_threshold:0.8,expandable_segments:True,max_non_split_rounding_mb:32,roundup_power2_divisions:4,large_segment_size_mb:24,per_process_memory_fraction:0.25,',
    );
    expect(conf).toEqual({
      settings: {
        maxSplitBytes: 128 * MiB,
        garbageCollectionThreshold: 0.8,
        expandableSegments: true,
        maxNonSplitRoundingBytes: 32 * MiB,
        roundupDivisions: Array(16).fill(4),
        largeSegmentBytes: 24 * MiB,
      },
      memoryFraction: 0.25,
      ignored: [],
      notes: [],
    });
  });

  it('takes an empty setting, and the last of two', () => {
    const nothing = { settings: {}, memoryFraction: 1, ignored: [], notes: [] };
    expect(parseAllocConf('')).toEqual(nothing);
    const twice = 'expandable_segments:True,expandable_segments:False';
    expect(parseAllocConf(twice).settings).toEqual({ expandableSegments: false });
  });

  it('names the options it leaves alone', () => {
    const conf = parseAllocConf('pinned_use_background_threads:True,pinned_num_register_threads:8');
    expect(conf).toMatchObject({
      settings: {},
      ignored: ['pinned_use_background_threads', 'pinned_num_register_threads'],
      notes: [],
    });
  });

  it("says that CUDA's own allocator is not the one simulated", () => {
    const { settings, ignored, notes } = parseAllocConf('backend:cudaMallocAsync');
    expect({ settings, ignored }).toEqual({ settings: {}, ignored: ['backend'] });
    expect(notes.join()).toContain('cudaMallocAsync');
  });

  // Every line was given to PyTorch 2.11.0 itself, which took it.
  it.each([
    'large_segment_size_mb:11,max_split_size_mb:12',
    'large_segment_size_mb:12,max_non_split_rounding_mb:13',
    'large_segment_size_mb:100000',
    'max_split_size_mb:20',
    'per_process_memory_fraction:0',
    'per_process_memory_fraction:1.0',
    'per_process_memory_fraction:.5',
    'garbage_collection_threshold:5e-1',
    'pinned_num_register_threads:128',
    'pinned_reserve_segment_size_mb:64',
    'pinned_use_cuda_host_register:True',
    'pinned_use_hip_host_register:True',
    'graph_capture_record_stream_reuse:True',
    'release_lock_on_cudamalloc:True',
    'expandable_segments : True,',
    'max_split_size_mb:\t30',
    'roundup_power2_divisions:[]',
    'roundup_power2_divisions:[256:2,]',
    'roundup_power2_divisions:[>:4]',
    'roundup_power2_divisions:[131072:4]',
    'roundup_power2_divisions:[512:8,256:2]',
    'roundup_power2_divisions:4,roundup_power2_divisions:[512:8]',
  ])('takes %s', (text) => {
    const { settings } = parseAllocConf(text);
    expect(createAllocator(settings).malloc(3 * MiB)).toBeTypeOf('number');
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

  // PyTorch 2.11.0 refuses these as well, but for the ones that are too long or not a whole number.
  it.each([
    'max_split_size_mb:10',
    'max_split_size_mb:1e3',
    'max_split_size_mb:64MB',
    'max_split_size_mb:30,large_segment_size_mb:40',
    'max_non_split_rounding_mb:19',
    'large_segment_size_mb:10',
    'per_process_memory_fraction:1.1',
    'per_process_memory_fraction:-0.1',
    'per_process_memory_fraction:half',
    'pinned_use_background_threads:true',
    'pinned_use_cuda_host_register:1',
    'pinned_num_register_threads:3',
    'pinned_num_register_threads:256',
    'pinned_reserve_segment_size_mb:0',
    'graph_capture_record_stream_reuse:x',
    'expandable_segments:True,,max_split_size_mb:30',
    'expandable_segments:[True]',
    'roundup_power2_divisions:0',
    'roundup_power2_divisions:[256:2,512:]',
    'backend:hipMallocAsync',
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
      ...'large_segment_size_mb per_process_memory_fraction pinned_num_register_threads'.split(' '),
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
