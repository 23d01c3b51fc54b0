import type { RankPoint } from '../../estimate/over-ranks.js';
import { ranksOf } from '../../estimate/parallel.js';
import { GiB } from '../../units/bytes.js';
import { estimatePage } from '../estimate-for-tests.js';
import type { OverRanksPage } from './over-ranks-html.js';
import type { OverRanks } from './over-ranks-text.js';

export function rankPoint(count: number, weights: number, traced = true): RankPoint {
  const whole = (weights + 8) * GiB;
  return {
    ranks: ranksOf({ way: 'fsdp2', gpus: count }),
    traced,
    peak: {
      allocatedBytes: whole,
      reservedBytes: whole,
      deviceBytes: whole,
      leastCapacityBytes: whole,
    },
    interval: { lowBytes: whole, highBytes: whole, confidence: 0.95 },
    breakdown: [
      { part: 'weights', bytes: weights * GiB },
      { part: 'gathered', bytes: 8 * GiB },
    ],
  };
}

const context = { bytes: GiB, lowBytes: GiB, highBytes: GiB, provenance: 'measured' } as const;
export const overRanks: OverRanks = {
  parallel: 'fsdp2',
  gpu: { name: 'A card', capacityBytes: 24 * GiB, context },
  overRanks: [rankPoint(2, 32), rankPoint(4, 16, false), rankPoint(8, 8)],
  notes: ['It rests on \u001b[31mthis.'],
};

export function overRanksPage(found: OverRanks): OverRanksPage {
  if (!('source' in estimatePage)) throw new Error('the page is of a model');
  return { found, source: estimatePage.source, workload: estimatePage.workload, version: '1.2.3' };
}
