import { memoryBar } from '../../report/text/charts/bar.js';

const barCells = 20;

/** Cells of the block that moves in a bar of work without a known end. */
const movingCells = 5;
/** From one side to the other. */
const passSeconds = 4;

/**
 * Work whose end is not known, as a bar of the same width: a block that goes from side to side.
 *
 * @example
 * movingBar(2, false); // '--------#####-------'
 */
export function movingBar(seconds: number, unicode: boolean): string {
  const [full, empty] = unicode ? ['█', '·'] : ['#', '-'];
  const there = (seconds / passSeconds) % 2;
  const at = Math.round((there <= 1 ? there : 2 - there) * (barCells - movingCells));
  return `${empty.repeat(at)}${full.repeat(movingCells)}${empty.repeat(barCells - movingCells - at)}`;
}

/** How far something is, as a bar of fixed width. */
export function barOf(share: number, unicode: boolean): string {
  const style = { colour: false, unicode };
  const spans = memoryBar(
    barCells + 1,
    Math.min(1, share) * 100 * (barCells / (barCells + 1)),
    100,
    style,
  );
  return spans
    .map(({ text }) => text)
    .join('')
    .slice(0, barCells);
}
