import type { DeviceSnapshot, Segment } from '../../snapshot/snapshot.js';
import { formatBytes } from '../../units/bytes.js';
import { count } from '../words.js';
import { merge } from './charts/runs.js';
import { type Span, span, type TextStyle } from './spans.js';

/** The largest segments tell where the memory lies; the rest is counted. */
const most = 8;

/** The segments of a device, each as a bar of what is in use and what is free, where it lies. */
export function segmentLines(
  { segments }: DeviceSnapshot,
  { columns, style }: { readonly columns: number; readonly style: TextStyle },
): Span[][] {
  const width = Math.max(10, Math.min(60, columns - 40));
  const shown = segments
    .filter(({ activeBytes }) => activeBytes > 0)
    .toSorted((a, b) => b.totalBytes - a.totalBytes)
    .slice(0, most);
  const empty = segments.filter(({ activeBytes }) => activeBytes === 0);
  const cached = empty.reduce((sum, { totalBytes }) => sum + totalBytes, 0);
  return [
    [span(`Segments: ${style.unicode ? '█ in use  · free' : '# in use  . free'}`, 'bold')],
    ...shown.map((segment) => [
      span(`  ${formatBytes(segment.totalBytes).padStart(10)}  `),
      ...bar(segment, width, style),
      span(`  ${segment.type}${segment.expandable ? ', expandable' : ''}`, 'dim'),
    ]),
    [
      span(
        `  ${count(segments.length - shown.length - empty.length, 'more segment')} partly in use; ${count(empty.length, 'segment')} wholly free (${formatBytes(cached)}, given back by empty_cache())`,
        'dim',
      ),
    ],
  ];
}

/** Each cell is in use as far as half of it is. */
function bar({ blocks, totalBytes }: Segment, width: number, style: TextStyle): Span[] {
  const used = new Float64Array(width);
  let at = 0;
  for (const { bytes, state } of blocks) {
    if (state !== 'inactive') fill(used, (at / totalBytes) * width, (bytes / totalBytes) * width);
    at += bytes;
  }
  return merge(
    [...used].map((share) =>
      share >= 0.5
        ? span(style.unicode ? '█' : '#', 'cyan')
        : share > 0
          ? span(style.unicode ? '▌' : '+', 'cyan')
          : span(style.unicode ? '·' : '.', 'dim'),
    ),
  );
}

function fill(cells: Float64Array, from: number, length: number): void {
  const end = Math.min(cells.length, from + length);
  for (let cell = Math.floor(from); cell < end; cell += 1) {
    const share = Math.min(end, cell + 1) - Math.max(from, cell);
    cells[cell] = (cells[cell] ?? 0) + share;
  }
}
