import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { findGpu } from '../estimate/cards/gpus.js';
import { GiB } from '../units/bytes.js';
import { estimate, estimatePage } from './estimate-for-tests.js';
import { type EstimatePage, renderEstimateHtml } from './estimate-html.js';

const page = (parts: Partial<EstimatePage> = {}) =>
  renderEstimateHtml({ ...estimatePage, ...parts });
const words = (text: string) =>
  text
    .replaceAll(/<style>.*?<\/style>/gs, '')
    .replaceAll(/<[^>]+>/g, ' ')
    .replaceAll(/[\s\u00A0]+/g, ' ');

describe('renderEstimateHtml', () => {
  it('stands alone: nothing is loaded, nothing runs', () => {
    expect(page()).not.toMatch(/<script|<link|<img|<iframe|url\(|@import|https?:/);
    expect(page()).toContain('default-src &#39;none&#39;');
  });

  it('tells what was asked, and not where the file lies', () => {
    const text = words(page());
    expect(text).toContain('gpt2/config.json estimated, by trace');
    expect(text).toContain('batch 8');
    expect(text).toContain('precision autocast to bf16');
    expect(text).toContain('LoRA rank 8');
    expect(page()).not.toContain('secret');
    const script = { kind: 'script', path: '/a/train.py', args: ['layers=12'] } as const;
    const ofScript = words(page({ source: script }));
    expect(ofScript).toContain('train.py layers=12');
    expect(ofScript).not.toMatch(/batch 8|sequence 1024/);
  });

  it('gives the four answers with their intervals', () => {
    const text = words(page());
    expect(text).toContain(
      'It takes 10.0 GiB on one NVIDIA H200 at its peak (95 %: 7.6 to 9.7 GiB)',
    );
    expect(text).toContain('allocated 6.0 GiB');
    expect(text).toContain('reserved 8.0 GiB 95 %: 7.0 to 9.0 GiB');
    expect(text).toContain('least capacity 9.0 GiB');
    expect(text).toContain('It fits into the 140.4 GiB of this card.');
  });

  it('draws the parts as wide as their shares', () => {
    const widths = [
      ...page().matchAll(/<rect class="part-(\w+)" x="([\d.]+)".*?width="([\d.]+)"/g),
    ];
    expect(widths.map(([, part, x, width]) => [part, Number(x), Number(width)])).toEqual([
      ['weights', 0, 400],
      ['activations', 400, 600],
    ]);
  });

  it('shows modules and savings, and what would then fit', () => {
    const text = words(page({ gpu: { ...findGpu('h200'), capacityBytes: 8 * GiB } }));
    expect(text).toContain('layers.*.mlp 12 5.0 GiB 83.3 %');
    expect(text).toContain('outside of the modules 1 1.0 GiB');
    expect(text).toContain('half the batch 3.0 GiB 6.0 GiB --batch 4 then it fits by formula');
    expect(text).toContain('autocast 1.0 GiB 8.0 GiB --precision amp-bf16 then it fits traced');
    expect(text).toContain('It does not fit');
    const { savings: _, ...bare } = estimate;
    expect(words(page({ estimate: bare }))).not.toContain('Ways to save');
  });

  it('escapes whatever comes from outside', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        const hostile = `<b onclick="x">${text}</b>`;
        const modules = [{ module: hostile, count: 1, bytes: 6 * GiB }];
        const html = page({
          source: { kind: 'torchvision', name: hostile },
          gpu: { ...findGpu('h200'), name: hostile },
          estimate: {
            ...estimate,
            notes: [hostile],
            breakdown: [{ part: 'activations', bytes: 10 * GiB, modules }],
          },
        });
        expect(html).not.toContain('<b onclick');
      }),
      { numRuns: 30 },
    );
  });
});
