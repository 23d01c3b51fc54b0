import type { Cause, Leak } from '../types.js';

/** What the cause is concluded from; all of it about one device, up to now. */
export interface CauseFacts {
  readonly seenSeconds: number;
  readonly leak: Leak;
  /** Rise of the second half over the first where memory grows steadily, else undefined. */
  readonly growthRatio: number | undefined;
  /** Whether most of the growth is due to another process than the one that was there first. */
  readonly byNeighbour: boolean;
  /** Levels left upwards for good. */
  readonly jumps: number;
  readonly spikes: boolean;
  /** The recent peak of what is held over the limit, 0 to 1. */
  readonly heldPeakShare: number;
  /** The recent peak of live bytes over that of what is held; undefined where it is unknown. */
  readonly livePeakShare: number | undefined;
}

const leastSeconds = 3;
/** Growth that keeps speeding up feeds on itself; a leak takes the same each time. */
const acceleratingRatio = 1.7;
const fewestJumps = 2;
/** Memory is short because of fragmentation when nearly all is held ... */
const heldNearly = 0.9;
/** ... and even at the peak of work this share of it would have served. */
const liveEnough = 0.85;

/** Why memory is, or becomes, short. The first that fits, from the most certain on. */
export function causeOf(facts: CauseFacts): Cause {
  if (facts.seenSeconds < leastSeconds) return 'unknown';
  const { growthRatio, livePeakShare } = facts;
  if (growthRatio !== undefined && facts.byNeighbour) return 'neighbour';
  if (growthRatio !== undefined && growthRatio >= acceleratingRatio) return 'growth';
  if (facts.leak.found === true) return 'leak';
  if (growthRatio !== undefined || facts.jumps >= fewestJumps) return 'growth';
  if (
    facts.heldPeakShare >= heldNearly &&
    livePeakShare !== undefined &&
    livePeakShare <= liveEnough
  ) {
    return 'fragmentation';
  }
  return facts.spikes ? 'spike' : 'none';
}
