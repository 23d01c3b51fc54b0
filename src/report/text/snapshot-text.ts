import type { SnapshotAnalysis } from '../../snapshot/analyse.js';
import { byModule, compareHolders, type Difference } from '../../snapshot/answer/holders.js';
import { recordingOf } from '../../snapshot/document.js';
import type { DeviceSnapshot, Segment } from '../../snapshot/snapshot.js';
import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import type { Finding } from '../findings.js';
import { originText, snapshotFindings } from '../snapshot-findings.js';
import { count, percentWords } from '../words.js';
import { merge } from './charts/runs.js';
import { type Paint, paintLine, type Span, span, type TextStyle } from './spans.js';
import { cleanText, wrapText } from './text-width.js';

export interface SnapshotTextOptions {
  /** How many holders are listed. */
  readonly top: number;
  readonly columns: number;
  readonly style: TextStyle;
}

const paints: Readonly<Record<Finding['level'], Paint>> = {
  critical: 'red',
  warning: 'yellow',
  fine: 'green',
  notice: 'dim',
};
const sizeWidth = 10;

/**
 * A snapshot for people: findings first, then who holds the memory and how it lies.
 *
 * @example
 * snapshotText(analysis, { top: 8, columns: 100, style: { colour: false, unicode: true } });
 */
export function snapshotText(analysis: SnapshotAnalysis, options: SnapshotTextOptions): string {
  const { columns, style } = options;
  const { device, snapshot, holders, figures } = analysis;
  const recording = recordingOf(analysis);
  const others = snapshot.devices.length - 1;
  const lines: Span[][] = [
    [
      span(`Device ${device.device}`, 'bold'),
      span(
        `  ${count(device.segments.length, 'segment')}, ${count(device.events.length, 'event')} in ${formatSeconds(recording.seconds)}${others > 0 ? `, ${count(others, 'more device')} in the file (--device)` : ''}`,
        'dim',
      ),
    ],
    [],
    ...snapshotFindings(analysis).flatMap((finding) => findingLines(finding, columns)),
    [],
    [span('Held now, by stack (measured)', 'bold')],
    ...holders
      .slice(0, options.top)
      .map(({ bytes, count: blocks, stack }) =>
        holderLine(bytes, blocks, originText(snapshot.names.stack(stack)), figures.allocatedBytes),
      ),
    ...rest(holders.length - options.top),
    [],
    [span('Held now, by module (measured)', 'bold')],
    ...byModule(holders, snapshot.names)
      .slice(0, options.top)
      .map(({ name, bytes, count: blocks }) =>
        holderLine(bytes, blocks, name, figures.allocatedBytes),
      ),
    [],
    ...segmentLines(device, options),
    ...whatIfLines(analysis),
  ];
  return lines.map((line) => paintLine(line, columns, style)).join('\n');
}

/** What changed from one snapshot to another. */
export function againstText(
  analysis: SnapshotAnalysis,
  against: SnapshotAnalysis,
  { top, columns, style }: SnapshotTextOptions,
): string {
  const differences = compareHolders(
    { holders: analysis.holders, names: analysis.snapshot.names },
    { holders: against.holders, names: against.snapshot.names },
  );
  const total = (key: 'allocatedBytes' | 'reservedBytes') =>
    signed(analysis.figures[key] - against.figures[key]);
  const lines: Span[][] = [
    [span('Against the other snapshot (measured)', 'bold')],
    [span(`  allocated ${total('allocatedBytes')}, reserved ${total('reservedBytes')}`)],
    ...differences.slice(0, top).map(differenceLine),
    ...rest(differences.length - top),
  ];
  return lines.map((line) => paintLine(line, columns, style)).join('\n');
}

function differenceLine({ frames, bytes, againstBytes, count: now, againstCount }: Difference) {
  const change = signed(bytes - againstBytes).padStart(sizeWidth + 1);
  return [
    span(`  ${change}`, bytes > againstBytes ? 'red' : 'green'),
    span(`  ${againstCount} -> ${now}  `.padEnd(16), 'dim'),
    span(cleanText(originText(frames))),
  ];
}

function signed(bytes: number): string {
  return `${bytes < 0 ? '-' : '+'}${formatBytes(Math.abs(bytes))}`;
}

function holderLine(bytes: number, blocks: number, name: string, whole: number): Span[] {
  const share = percentWords(whole === 0 ? 0 : (bytes / whole) * 100, 0);
  return [
    span(`  ${formatBytes(bytes).padStart(sizeWidth)}`),
    span(`  ${share.padStart(5)}  ${count(blocks, 'block').padEnd(13)}`, 'dim'),
    span(cleanText(name)),
  ];
}

function rest(more: number): Span[][] {
  return more > 0 ? [[span(`  and ${count(more, 'more stack')} (--top)`, 'dim')]] : [];
}

function settingLine(name: string, bytes: number, note: string): Span[] {
  return [
    span(`  ${formatBytes(bytes).padStart(sizeWidth)}  `),
    span(cleanText(name)),
    span(note, 'dim'),
  ];
}

function whatIfLines({ whatIfs, history }: SnapshotAnalysis): Span[][] {
  if (whatIfs === undefined) return [];
  const { asRecorded, others } = whatIfs;
  const measured = history.peakReserved.reservedBytes;
  return [
    [],
    [span('Peak reserved with other allocator settings', 'bold')],
    settingLine('as it was', measured, '  measured'),
    settingLine('as it was', asRecorded.peakReservedBytes, '  simulated'),
    ...others.map(({ conf, peakReservedBytes, servesOutOfMemory }) =>
      settingLine(
        conf,
        peakReservedBytes,
        `  simulated${servesOutOfMemory ? '; would have served the request that failed' : ''}`,
      ),
    ),
  ];
}

/** A finding may be what matters most, so it is wrapped and never cut. */
function findingLines({ level, text, provenance }: Finding, columns: number): Span[][] {
  const width = Math.max(20, Math.min(columns, 110) - 4);
  return wrapText(`${text} [${provenance}]`, width).map((part, index) => [
    span(index === 0 ? '- ' : '  ', paints[level]),
    span(part, level === 'critical' || level === 'warning' ? paints[level] : undefined),
  ]);
}

/** The largest segments tell where the memory lies; the rest is counted. */
const most = 8;

/** The segments of a device, each as a bar of what is in use and what is free, where it lies. */
function segmentLines(
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
