import type { FleetHistory } from '../api/types.js';

/** Points of a line in a box of 100 by 100; where nothing is known the line is broken. */
export function linePath(
  values: FleetHistory['usedBytes'],
  { epochMs, totalBytes }: Pick<FleetHistory, 'epochMs' | 'totalBytes'>,
): string {
  const first = epochMs[0] ?? 0;
  const span = Math.max(1, (epochMs.at(-1) ?? 0) - first);
  let isDrawing = false;
  return values
    .map((value, at) => {
      const total = totalBytes[at] ?? null;
      if (value === null || total === null || total <= 0) {
        isDrawing = false;
        return '';
      }
      const x = (((epochMs[at] ?? first) - first) / span) * 100;
      const y = 100 - Math.min(1, value / total) * 100;
      const step = `${isDrawing ? 'L' : 'M'}${x.toFixed(2)} ${y.toFixed(2)}`;
      isDrawing = true;
      return step;
    })
    .join('');
}
