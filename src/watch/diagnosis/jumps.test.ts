import { describe, expect, it } from 'vitest';
import { type Cell, Cells } from './cells.js';
import { hasSpikes, jumpsUp } from './jumps.js';

function cellsOf(bytes: readonly number[]): Cell[] {
  const cells = new Cells();
  for (const [i, value] of bytes.entries()) cells.add(i * 0.25, value);
  return cells.level(0);
}

const fill = (n: number, value: number): number[] => Array.from({ length: n }, () => value);

describe('jumpsUp', () => {
  it('counts levels that were reached at once and kept', () => {
    expect(jumpsUp(cellsOf([...fill(8, 100), ...fill(8, 200), ...fill(8, 400)]), 1000)).toBe(2);
  });

  it.each([
    [3, 0],
    [4, 1],
  ])('takes a level that lasts for %i cells for %i jumps', (cells, jumps) => {
    const bytes = [...fill(8, 100), ...fill(cells, 200), ...fill(8, 100)];
    expect(jumpsUp(cellsOf(bytes), 1000)).toBe(jumps);
  });

  it('counts neither growth, nor a spike, nor a return to a known level', () => {
    const growth = Array.from({ length: 30 }, (_, i) => 100 + 20 * i);
    expect(jumpsUp(cellsOf(growth), 1000)).toBe(0);
    expect(jumpsUp(cellsOf([...fill(10, 100), 900, ...fill(10, 100)]), 1000)).toBe(0);
    expect(jumpsUp(cellsOf([...fill(8, 400), ...fill(8, 100), ...fill(8, 400)]), 1000)).toBe(0);
  });
});

describe('hasSpikes', () => {
  it('needs few cells far above the rest', () => {
    expect(hasSpikes(cellsOf([...fill(20, 100), 300, ...fill(5, 100)]))).toBe(true);
    expect(hasSpikes(cellsOf(fill(30, 100)))).toBe(false);
    expect(hasSpikes(cellsOf([...fill(10, 100), ...fill(10, 300)]))).toBe(false);
    expect(hasSpikes(cellsOf([...fill(5, 100), 300]))).toBe(false);
  });
});
