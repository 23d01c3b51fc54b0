import { describe, expect, it } from 'vitest';
import type { Estimate, Saving } from '../../estimate/types.js';
import { GiB } from '../../units/bytes.js';
import { estimateText } from './estimate-text.js';

const estimate: Estimate = {
  method: 'trace',
  peak: {
    allocatedBytes: 6 * GiB,
    reservedBytes: 8 * GiB,
    deviceBytes: 10 * GiB,
    leastCapacityBytes: 9 * GiB,
  },
  interval: { lowBytes: 7 * GiB, highBytes: 9 * GiB, confidence: 0.95 },
  breakdown: [
    { part: 'weights', bytes: 2 * GiB },
    {
      part: 'activations',
      bytes: 5 * GiB,
      modules: [
        { module: 'layers.*.mlp', count: 12, bytes: 4 * GiB },
        { module: '', count: 1, bytes: 0.9 * GiB },
        { module: 'head.\u001b[2J', count: 1, bytes: 0.06 * GiB },
        { module: 'norm', count: 1, bytes: 0.04 * GiB },
      ],
    },
    { part: 'context', bytes: 2 * GiB },
    { part: 'fragmentation', bytes: 1 * GiB },
  ],
  notes: ['A note \u001b[31mfrom outside.'],
};
const plain = { colour: false, unicode: true };
const context = {
  bytes: 2 * GiB,
  lowBytes: 1 * GiB,
  highBytes: 3 * GiB,
  provenance: 'measured',
} as const;
const gpu = { name: 'NVIDIA H200', capacityBytes: 140 * GiB, context } as const;
const card = (gibibytes: number) => ({ gpu: { ...gpu, capacityBytes: gibibytes * GiB } });
const saving = (change: string, saves: number): Saving => ({
  change,
  settings: { batch: 4 },
  savesBytes: saves * GiB,
  leastCapacityBytes: (9 - saves) * GiB,
  basis: 'formula',
});
const draw = (options: object = {}) =>
  estimateText(estimate, { gpu, columns: 80, style: plain, ...options });

describe('estimateText', () => {
  it('shows the four answers with the interval, and says that they are estimated', () => {
    const text = draw();
    expect(text).toMatch(/^Peak on one NVIDIA H200 \(estimated, by trace\):\n/);
    expect(text).toMatch(/ reserved +8\.0 GiB .*95 %: 7\.0 to 9\.0 GiB/);
    expect(text).toMatch(/ device +10\.0 GiB .*95 %: 8\.0 to 12\.0 GiB/);
    expect(text).toMatch(/ least capacity +9\.0 GiB/);
  });

  it('stacks the parts in one bar, each as wide as its share', () => {
    const bar = /^ {2}([A-Z]+)$/m.exec(draw())?.[1] ?? '';
    expect(bar).toBe(`${'W'.repeat(12)}${'A'.repeat(30)}${'C'.repeat(12)}${'F'.repeat(6)}`);
    expect(draw()).toMatch(/A activations +5\.0 GiB +50\.0 %/);
    const coloured = draw({ style: { colour: true, unicode: true } });
    expect(coloured).toContain('█'.repeat(30));
  });

  it('says whether it fits, by the least capacity, and how surely', () => {
    expect(draw()).toContain('It fits into the 140.0 GiB');
    expect(draw(card(10))).toContain('It fits');
    expect(draw(card(9))).toContain(
      'It should fit into the 9.0 GiB of this card; it may lack up to',
    );
    expect(draw(card(8))).toContain('It does not fit into the 8.0 GiB of this card; 1.0 GiB are');
  });

  it('names the modules that hold the activations, and sums up the small ones', () => {
    const text = draw();
    expect(text).toMatch(/^ {6}layers\.\*\.mlp \(12\) +4\.0 GiB$/m);
    expect(text).toMatch(/^ {6}outside of the modules +922 MiB$/m);
    expect(text).toMatch(/^ {6}2 others +102 MiB$/m);
  });

  it('shows what other settings save, and whether it fits then', () => {
    const savings = [saving('half the batch', 2), saving('autocast', 0.5)];
    const text = estimateText({ ...estimate, savings }, { ...card(8), columns: 80, style: plain });
    expect(text).toContain('Ways to save memory (estimated by formula):');
    expect(text).toMatch(/half the batch +2\.0 GiB +7\.0 GiB {2}--batch 4 {2}then it fits$/m);
    expect(text).toMatch(/autocast +512 MiB +8\.5 GiB {2}--batch 4$/m);
    expect(draw()).not.toContain('Ways to save');
  });

  it('keeps to the width of the terminal, and lets no note act on it', () => {
    const savings = [saving('a change', 1)];
    const narrow = { gpu, columns: 40, style: plain };
    const notes = ['A long note, which goes on over the edge of the screen.'];
    const lines = estimateText({ ...estimate, savings, notes }, narrow).split('\n');
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(40);
    expect(lines.slice(-2)).toEqual([
      '- A long note, which goes on over the',
      '  edge of the screen.',
    ]);
    expect(draw()).not.toContain('\u001b');
    expect(draw()).toContain('- A note ');
  });
});
