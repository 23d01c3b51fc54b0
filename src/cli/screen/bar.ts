import { memoryBar } from '../../report/text/charts/bar.js';

const barCells = 20;

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
