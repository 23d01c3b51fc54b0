import { describe, expect, it } from 'vitest';
import type { Estimate } from '../../estimate/contract.js';
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
    { part: 'activations', bytes: 5 * GiB },
    { part: 'context', bytes: 2 * GiB },
    { part: 'fragmentation', bytes: 1 * GiB },
  ],
  notes: ['A note \u001b[31mfrom outside.'],
};
const plain = { colour: false, unicode: true };
const gpu = { name: 'NVIDIA H200', capacityBytes: 140 * GiB };
const draw = (options: object = {}) =>
  estimateText(estimate, { gpu, columns: 80, style: plain, ...options });

describe('estimateText', () => {
  it('shows the four answers with the interval, and says that they are estimated', () => {
    const text = draw();
    expect(text).toMatch(/^Peak on one NVIDIA H200 \(estimated, by trace\):\n/);
    expect(text).toMatch(/ reserved +8\.0 GiB .*95 %: 7\.0 GiB to 9\.0 GiB/);
    expect(text).toMatch(/ least capacity +9\.0 GiB/);
  });

  it('stacks the parts in one bar, each as wide as its share', () => {
    const bar = /^ {2}([A-Z]+)$/m.exec(draw())?.[1] ?? '';
    expect(bar).toBe(`${'W'.repeat(12)}${'A'.repeat(30)}${'C'.repeat(12)}${'F'.repeat(6)}`);
    expect(draw()).toMatch(/A activations +5\.0 GiB +50\.0 %/);
    const coloured = draw({ style: { colour: true, unicode: true } });
    expect(coloured).toContain('█'.repeat(30));
  });

  it('says whether it fits, by the least capacity', () => {
    expect(draw()).toContain('It fits into the 140.0 GiB');
    expect(draw({ gpu: { name: 'Nine', capacityBytes: 9 * GiB } })).toContain('It fits');
    expect(draw({ gpu: { name: 'Eight', capacityBytes: 8 * GiB } })).toContain('It does not fit');
  });

  it('keeps to the width of the terminal, and lets no note act on it', () => {
    const lines = draw({ columns: 40 }).split('\n');
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(40);
    expect(draw()).not.toContain('\u001b');
    expect(draw()).toContain('- A note ');
  });
});
