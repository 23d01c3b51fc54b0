import type { Cell } from './cells.js';
import { median } from './slopes.js';

/** A step of this share of the limit from one cell to the next is a jump, not growth. */
const jumpShare = 0.08;
/** ... when the new level lasts for so many cells. */
const cellsKept = 4;
/** A spike reaches this many times the usual peak ... */
const spikeFactor = 1.4;
/** ... in at most this share of the cells. */
const spikeCellShare = 0.15;
/** Fewer cells say nothing about what is usual. */
const fewestCells = 12;

/** How often a level never seen before was reached all at once, and kept for some cells. */
export function jumpsUp(cells: readonly Cell[], limitBytes: number): number {
  let jumps = 0;
  let highest = cells[0]?.max ?? 0;
  for (let i = 1; i + cellsKept < cells.length; i++) {
    // The cell of the jump itself holds both levels: look at those after it.
    const next = cells.slice(i + 1, i + 1 + cellsKept).map((cell) => cell.min);
    const kept = Math.min(...next);
    if (kept - highest >= jumpShare * limitBytes) {
      jumps++;
      highest = kept;
    }
    highest = Math.max(highest, cells[i]?.max ?? 0);
  }
  return jumps;
}

/** Whether a few cells stand far above the usual peak, with the rest level. */
export function hasSpikes(cells: readonly Cell[]): boolean {
  if (cells.length < fewestCells) return false;
  const peaks = cells.map((cell) => cell.max);
  const usual = median(peaks);
  const high = peaks.filter((peak) => peak >= spikeFactor * usual).length;
  return high > 0 && high <= spikeCellShare * cells.length;
}
