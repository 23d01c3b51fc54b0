import type { RankPoint } from '../../estimate/over-ranks.js';
import { formatBytes } from '../../units/bytes.js';
import { html, type Markup } from './markup.js';

const height = 380;
/** Room for the figures beside and below the columns. */
const [left, bottom, top] = [10, 34, 26];
/** Of the width that each count has, what its column takes. */
const columnShare = 0.62;
/** The width of a letter, with the space to the next label. */
const letter = 7.5;

/**
 * One column for each count of ranks, made of its parts; the line is the memory of the card. It is drawn
 * twice, the second time for narrow screens: letters that shrink with a picture cannot be read there.
 */
export function ranksChart(points: readonly RankPoint[], capacityBytes: number): Markup {
  return html`${chartOf(points, capacityBytes, 'wide', 1000)}
${chartOf(points, capacityBytes, 'narrow', 480)}`;
}

function chartOf(
  points: readonly RankPoint[],
  capacityBytes: number,
  look: 'wide' | 'narrow',
  width: number,
): Markup {
  const most = Math.max(capacityBytes, ...points.map(({ peak }) => peak.deviceBytes)) * 1.06;
  const y = (bytes: number) => height - bottom - (bytes / most) * (height - bottom - top);
  const step = (width - left) / points.length;
  const names = points.map(({ ranks }) => `${ranks.count}${look === 'wide' ? ' GPUs' : ''}`);
  const sizes = points.map(({ peak }) => formatBytes(peak.deviceBytes));
  const [namedEvery, sizedEvery] = [everyThat(names, step), everyThat(sizes, step)];
  const columns = points.map((point, index) => {
    const x = left + step * (index + (1 - columnShare) / 2);
    const label = (text: string | undefined, at: number) =>
      html`<text class="label" x="${(x + (step * columnShare) / 2).toFixed(1)}" y="${at.toFixed(1)}">${text ?? ''}</text>`;
    const size = index % sizedEvery === 0 && label(sizes[index], y(point.peak.deviceBytes) - 7);
    const name = index % namedEvery === 0 && label(names[index], height - 10);
    return html`<g>${stacked(point, x, step * columnShare, y)}${size}${name}</g>`;
  });
  const line = y(capacityBytes).toFixed(1);
  const words = points.map(({ ranks }, index) => `${ranks.count} GPUs: ${sizes[index]}`);
  return html`<svg class="chart ranks ${look}" viewBox="0 0 ${width} ${height}" role="img" aria-label="What fills one rank. ${words.join(', ')}. The card has ${formatBytes(capacityBytes)}.">
<line class="axis" x1="0" x2="${width}" y1="${height - bottom}" y2="${height - bottom}"/>
${columns}
<line class="card" x1="0" x2="${width}" y1="${line}" y2="${line}"/>
<text class="card-label" x="${width}" y="${(Number(line) - 6).toFixed(1)}">the card: ${formatBytes(capacityBytes)}</text>
</svg>`;
}

/** Each of so many labels has room; the table has the others. */
function everyThat(labels: readonly string[], step: number): number {
  return Math.ceil((Math.max(...labels.map(({ length }) => length)) * letter) / step);
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
.ranks .axis { stroke: var(--ink); stroke-opacity: .35; }
.ranks .card { stroke: var(--ink); stroke-width: 2; stroke-dasharray: 7 5; }
.chart.ranks text { fill: var(--ink); }
.chart.ranks .label { font-size: 13px; text-anchor: middle; }
.chart.ranks .card-label { font-size: 13px; text-anchor: end; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 20px; list-style: none; padding: 0; margin: 12px 0 0; }
td.no { color: var(--critical); }
td.tightly { color: var(--warning); }
`;
