import type { SnapshotAnalysis } from '../../snapshot/analyse.js';
import { compareHolders, type Difference } from '../../snapshot/answer/compare.js';
import { byModule } from '../../snapshot/answer/holders.js';
import { recordingOf } from '../../snapshot/document.js';
import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import type { Finding } from '../findings.js';
import { originText, snapshotFindings } from '../snapshot-findings.js';
import { count, percentWords } from '../words.js';
import { segmentLines } from './snapshot-segments.js';
import { type Paint, paintLine, type Span, span, type TextStyle } from './spans.js';
import { cleanText } from './text-width.js';
import { wrapText } from './wrap-text.js';

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
