import { describe, expect, it } from 'vitest';
import type { Cause, Leak } from '../types.js';
import { type CauseFacts, causeOf } from './cause.js';

const noLeak: Leak = {
  found: false,
  bytesPerSecond: 0,
  confidence: 0.5,
  grownBytes: 0,
  sinceSeconds: 'unknown',
  watchSeconds: 0,
  reason: '',
};
const quiet: CauseFacts = {
  seenSeconds: 60,
  leak: noLeak,
  growthRatio: undefined,
  byNeighbour: false,
  jumps: 0,
  spikes: false,
  heldPeakShare: 0.5,
  livePeakShare: 0.9,
};

describe('causeOf', () => {
  it.each<[string, Partial<CauseFacts>, Cause]>([
    ['nothing', {}, 'none'],
    ['too little to go by', { seenSeconds: 2, spikes: true }, 'unknown'],
    ['a leak', { leak: { ...noLeak, found: true }, growthRatio: 1 }, 'leak'],
    ['growth that speeds up', { leak: { ...noLeak, found: true }, growthRatio: 2.5 }, 'growth'],
    ['growth not yet known for a leak', { growthRatio: 1 }, 'growth'],
    ['a batch that doubles', { jumps: 3 }, 'growth'],
    ['another process', { growthRatio: 1, byNeighbour: true }, 'neighbour'],
    [
      'a full cache that is half empty',
      { heldPeakShare: 0.99, livePeakShare: 0.6 },
      'fragmentation',
    ],
    ['a full cache in use', { heldPeakShare: 0.99, livePeakShare: 0.97 }, 'none'],
    ['full, and live bytes are unknown', { heldPeakShare: 0.99, livePeakShare: undefined }, 'none'],
    ['spikes', { spikes: true }, 'spike'],
  ])('%s', (_, facts, cause) => {
    expect(causeOf({ ...quiet, ...facts })).toBe(cause);
  });
});
