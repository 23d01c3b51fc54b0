import { describe, expect, it } from 'vitest';
import type { RankPoint } from '../../estimate/over-ranks.js';
import { ranksOf } from '../../estimate/parallel.js';
import { GiB } from '../../units/bytes.js';
import { estimatePage } from '../estimate-for-tests.js';
import { renderOverRanksHtml } from './over-ranks-html.js';
import { overRanksText } from './over-ranks-text.js';
import type { OverRanks } from './over-ranks-words.js';

function point(count: number, weights: number, traced = true): RankPoint {
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
const found: OverRanks = {
  parallel: 'fsdp2',
  gpu: { name: 'A card', capacityBytes: 24 * GiB, context },
  overRanks: [point(2, 32), point(4, 16, false), point(8, 8)],
  notes: ['It rests on \u001b[31mthis.'],
};
const plain = { colour: false, unicode: false };

describe('what fills a rank, over the number of ranks', () => {
  it('is a bar for each count, with the end of the card as a line', () => {
    const lines = overRanksText(found, 74, plain).split('\n');
    // 40 GiB are 40 cells.
    expect(lines[2]).toBe(
      `       2    40.0 GiB  ${'W'.repeat(23)}|${'W'.repeat(8)}PPPPPPPP  too large`,
    );
    expect(lines[3]).toBe(`       4    24.0 GiB  ${'W'.repeat(16)}PPPPPPP|${' '.repeat(16)}  fits`);
    expect(lines[4]).toBe(
      `       8    16.0 GiB  ${'W'.repeat(8)}${'P'.repeat(8)}       |${' '.repeat(16)}  fits`,
    );
    const text = lines.join('\n');
    expect(text).toContain('W weights   P gathered');
    expect(text).toContain('It fits into the 24.0 GiB of this card from 4 GPUs on.');
    expect(text).toContain('Traced with 2, 8 GPUs');
    expect(text).not.toContain('\u001b');
  });

  it('says that it is estimated on a narrow terminal, too', () => {
    const named = { ...found, gpu: { ...found.gpu, name: 'NVIDIA GeForce RTX 4090' } };
    for (const columns of [60, 80]) {
      const text = overRanksText(named, columns, plain).replaceAll(/\s+/g, ' ');
      expect(text).toContain('RTX 4090 (estimated, by trace):');
    }
  });

  it('says so where nothing fits, and where all do', () => {
    const small = { ...found, gpu: { ...found.gpu, capacityBytes: 2 * GiB } };
    expect(overRanksText(small, 80, plain)).toContain('on any of these counts');
    const large = { ...found, gpu: { ...found.gpu, capacityBytes: 80 * GiB } };
    expect(overRanksText(large, 80, plain)).toContain('on each of these counts');
  });

  it('is a page with a column for each count, and loads nothing', () => {
    const page = renderOverRanksHtml({ found, ...ofModel(), version: '1.2.3' });
    expect(page.match(/<rect class="part-weights"/g)?.length).toBe(3);
    expect(page).toContain('from 4 GPUs on');
    expect(page).toContain('<td class="name">between</td>');
    expect(page).not.toMatch(/<script|src=|\/secret\//);
  });
});

function ofModel() {
  if (!('source' in estimatePage)) throw new Error('the page is of a model');
  return { source: estimatePage.source, workload: estimatePage.workload };
}
