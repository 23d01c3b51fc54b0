import { describe, expect, it } from 'vitest';
import { GiB } from '../../units/bytes.js';
import { overRanks, overRanksPage, rankPoint } from '../estimate-for-tests.js';
import { renderOverRanksHtml } from '../estimate-html.js';
import { overRanksText } from '../text/estimate-text.js';

const found = overRanks;
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
    const page = renderOverRanksHtml(overRanksPage(found));
    // Wide and narrow.
    expect(page.match(/<rect class="part-weights"/g)?.length).toBe(6);
    expect(page).toContain('from 4 GPUs on');
    expect(page).toContain('<td data-label="Basis">between</td>');
    expect(page).not.toMatch(/<script|src=|\/secret\//);
  });

  it('names only as many columns as there is room for', () => {
    const counts = Array.from({ length: 20 }, (_, index) => 2 ** (index + 1));
    const many = { ...found, overRanks: counts.map((count) => rankPoint(count, 8)) };
    const page = renderOverRanksHtml(overRanksPage(many));
    const [narrow = ''] = /<svg class="chart ranks narrow".*?<\/svg>/s.exec(page) ?? [];
    const named = narrow.match(/>\d+<\/text>/g) ?? [];
    expect(named.length).toBeGreaterThan(4);
    expect(named.length).toBeLessThan(10);
  });
});
