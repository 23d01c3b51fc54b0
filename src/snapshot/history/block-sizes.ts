import { blockSizeFor, largestSmall } from '../../estimate/allocator/sizes.js';
import type { RecordedSettings } from '../snapshot.js';
import type { SegmentMap } from './segment-map.js';

/**
 * The size of a block, which the events do not tell: they have what was asked for. The allocator
 * rounds that up, and leaves a rest that is not worth a block of its own to the block before it.
 * How large that rest is shows in where the next block in use begins.
 */
export function blockSizes(settings: RecordedSettings, segments: SegmentMap) {
  const { roundupDivisions, maxSplitBytes } = settings;
  const unsplit = maxSplitBytes > 0 ? maxSplitBytes : Infinity;
  return {
    begin(offset: number, requested: number): number {
      const size = blockSizeFor(Math.max(1, requested), roundupDivisions);
      // Small blocks are always cut to size; so are those of expandable segments, which are in no
      // map, so that no gap is found for them.
      if (size <= largestSmall) return size;
      const gap = segments.begin(offset);
      if (gap === undefined || gap < size) return size;
      return size < unsplit && gap - size > largestSmall ? size : gap;
    },
    end(offset: number, bytes: number): void {
      if (bytes > largestSmall) segments.end(offset);
    },
  };
}
