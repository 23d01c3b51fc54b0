import type { Known } from '../../units/known.js';

/** A request that could not be served, with the state it met after cached segments were released. */
export interface OutOfMemory {
  readonly kind: 'out-of-memory';
  readonly askedBytes: number;
  /** What the driver would have had to give. */
  readonly segmentBytes: number;
  /** What was left under the cap. */
  readonly freeBytes: Known<number>;
  readonly allocatedBytes: number;
  readonly reservedBytes: number;
}

export interface AllocatorStats {
  /** Live blocks as the allocator rounds them. */
  readonly allocatedBytes: number;
  /** Segments held from the driver. */
  readonly reservedBytes: number;
  readonly peakAllocatedBytes: number;
  readonly peakReservedBytes: number;
  /** Free parts of segments that are partly in use: cached, but impossible to give back. */
  readonly inactiveSplitBytes: number;
  readonly segments: number;
  /** How often all cached segments had to be released before a request was served. */
  readonly retries: number;
}
