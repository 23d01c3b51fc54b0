import type { RankPoint } from '../../estimate/over-ranks.js';
import { formatBytes } from '../../units/bytes.js';
import { html, type Markup } from './markup.js';

const width = 1000;
const height = 380;
/** Room for the figures beside and below the columns. */
const [left, bottom, top] = [10, 34, 26];
/** Of the width that each count has, what its column takes. */
const columnShare = 0.62;

/** One column for each count of ranks, made of its parts; the line is the memory of the card. */
export function ranksChart(points: readonly RankPoint[], capacityBytes: number): Markup {
  const most = Math.max(capacityBytes, ...points.map(({ peak }) => peak.deviceBytes)) * 1.06;
  const y = (bytes: number) => height - bottom - (bytes / most) * (height - bottom - top);
  const step = (width - left) / points.length;
  const columns = points.map((point, index) => {
    const x = left + step * (index + (1 - columnShare) / 2);
    const middle = (x + (step * columnShare) / 2).toFixed(1);
    const name = `${point.ranks.count} GPUs`;
    return html`<g>${stacked(point, x, step * columnShare, y)}<text class="label" x="${middle}" y="${(y(point.peak.deviceBytes) - 7).toFixed(1)}">${formatBytes(point.peak.deviceBytes)}</text><text class="label" x="${middle}" y="${height - 10}">${name}</text></g>`;
  });
  const line = y(capacityBytes).toFixed(1);
  const words = points.map(
    ({ ranks, peak }) => `${ranks.count} GPUs: ${formatBytes(peak.deviceBytes)}`,
  );
  return html`<svg class="ranks" viewBox="0 0 ${width} ${height}" role="img" aria-label="What fills one rank. ${words.join(', ')}. The card has ${formatBytes(capacityBytes)}.">
<line class="axis" x1="0" x2="${width}" y1="${height - bottom}" y2="${height - bottom}"/>
${columns}
<line class="card" x1="0" x2="${width}" y1="${line}" y2="${line}"/>
<text class="card-label" x="${width}" y="${(Number(line) - 6).toFixed(1)}">the card: ${formatBytes(capacityBytes)}</text>
</svg>`;
}

function stacked(
  { breakdown }: RankPoint,
  x: number,
  columnWidth: number,
  y: (bytes: number) => number,
): Markup[] {
  let before = 0;
  return breakdown.map(({ part, bytes }) => {
    const from = y(before);
    before += bytes;
    const to = y(before);
    return html`<rect class="part-${part}" x="${x.toFixed(1)}" y="${to.toFixed(1)}" width="${columnWidth.toFixed(1)}" height="${(from - to).toFixed(1)}"><title>${part}: ${formatBytes(bytes)}</title></rect>`;
  });
}

/** What the page needs beside the look of an estimate's. */
export const ranksStyle = `
.ranks { display: block; width: 100%; height: auto; }
.ranks .axis { stroke: var(--ink); stroke-opacity: .35; }
.ranks .card { stroke: var(--ink); stroke-width: 2; stroke-dasharray: 7 5; }
.ranks .label { fill: var(--ink); font-size: 13px; text-anchor: middle; }
.ranks .card-label { fill: var(--ink); font-size: 13px; text-anchor: end; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 20px; list-style: none; padding: 0; margin: 12px 0 0; }
td.no { color: var(--critical); }
td.tightly { color: var(--warning); }
`;
