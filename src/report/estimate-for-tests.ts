import { findGpu } from '../estimate/cards/gpus.js';
import type { RankPoint } from '../estimate/over-ranks.js';
import { ranksOf } from '../estimate/parallel.js';
import type { Estimate } from '../estimate/types.js';
import { GiB } from '../units/bytes.js';
import type { EstimatePage, OverRanksPage } from './estimate-html.js';
import type { OverRanks } from './text/estimate-text.js';

/** An estimate with modules and savings. */
export const estimate: Estimate = {
  method: 'trace',
  peak: {
    allocatedBytes: 6 * GiB,
    reservedBytes: 8 * GiB,
    deviceBytes: 10 * GiB,
    leastCapacityBytes: 9 * GiB,
  },
  interval: { lowBytes: 7 * GiB, highBytes: 9 * GiB, confidence: 0.95 },
  breakdown: [
    { part: 'weights', bytes: 4 * GiB },
    {
      part: 'activations',
      bytes: 6 * GiB,
      modules: [
        { module: 'layers.*.mlp', count: 12, bytes: 5 * GiB },
        { module: '', count: 1, bytes: 1 * GiB },
      ],
    },
  ],
  savings: [
    {
      change: 'half the batch',
      settings: { batch: 4 },
      savesBytes: 3 * GiB,
      leastCapacityBytes: 6 * GiB,
      basis: 'formula',
    },
    {
      change: 'autocast',
      settings: { precision: 'amp-bf16' },
      savesBytes: GiB,
      leastCapacityBytes: 8 * GiB,
      basis: 'trace',
    },
  ],
  notes: ['It rests on a run.'],
};

/** The page of it, for a model that is a file. */
export const estimatePage: EstimatePage = {
  estimate,
  source: { kind: 'path', path: '/secret/place/gpt2/config.json' },
  workload: {
    mode: 'train',
    batch: 8,
    sequence: 1024,
    precision: 'amp-bf16',
    optimizer: 'sgd',
    checkpointing: true,
    loraRank: 8,
  },
  gpu: findGpu('h200'),
  version: '1.2.3',
};

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
