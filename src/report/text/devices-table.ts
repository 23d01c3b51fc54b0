import type { DeviceInfo, MemoryReading, ProcessReading } from '../../device/types.js';
import { formatBytes } from '../../units/bytes.js';
import { isKnown, type Known } from '../../units/known.js';
import { count, percentOf, percentWords, usedOfTotal } from '../words.js';
import { memoryBar } from './charts/bar.js';
import { paintLine, type Span, span, type TextStyle } from './spans.js';
import { cleanText, cutText, fitText, textWidth } from './text-width.js';

/** One device as `plimsoll devices` has just read it, in the shape of its JSON. */
export type DeviceRow = DeviceInfo &
  MemoryReading & { readonly processes: Known<readonly ProcessReading[]> };

export interface TableOptions {
  readonly columns: number;
  readonly loadLinePercent: number;
  readonly style: TextStyle;
  /** Processes shown under each device. */
  readonly processes?: number;
  /** What could not be seen, and why. */
  readonly notes?: readonly string[];
}

/**
 * The devices of this machine with a bar each, and under each the processes that hold its memory.
 *
 * @example
 * devicesTable(rows, { columns: 80, loadLinePercent: 90, style: { colour: false, unicode: true } });
 */
export function devicesTable(rows: readonly DeviceRow[], options: TableOptions): string {
  const { columns, style } = options;
  const mark = style.unicode ? '…' : '~';
  const id = widest(rows, (row) => cleanText(row.id), 14);
  const name = widest(rows, (row) => cleanText(row.name), Math.max(8, Math.floor(columns / 4)));
  const usage = widest(rows, (row) => usedOfTotal(row.usedBytes, row.totalBytes), 32);
  const origin = widest(rows, originOf, 24);
  // id, name, percent and usage come first; the bar and then the origin take what remains.
  const left = columns - id - name - usage - 2 * 3 - 8;
  const shownOrigin = left - origin - 2 >= 10 ? origin + 2 : 0;
  const bar = Math.min(40, left - shownOrigin);
  const lines: Span[][] = rows.flatMap((row) => {
    const percent = percentOf(row.usedBytes, row.totalBytes);
    const head = [
      span(fitText(cleanText(row.id), id, mark), 'bold'),
      span('  '),
      span(fitText(cleanText(row.name), name, mark)),
      span('  '),
      ...(bar >= 6 ? memoryBar(bar, percent, options.loadLinePercent, style) : []),
      span(percentWords(percent, 1).padStart(8)),
      span('  '),
      span(usedOfTotal(row.usedBytes, row.totalBytes).padStart(usage)),
      ...(shownOrigin > 0
        ? [span(`  ${originOf(row)}`, row.provenance === 'simulated' ? 'inverse' : 'dim')]
        : []),
    ];
    return [head, ...processLines(row, options)];
  });
  if (rows.length === 0) lines.push([span('No device is seen.')]);
  for (const note of options.notes ?? [])
    lines.push([span('note: ', 'dim'), span(cleanText(note))]);
  return lines.map((line) => paintLine(line, columns, style)).join('\n');
}

function originOf(info: DeviceRow): string {
  return info.source === info.provenance ? info.provenance : `${info.source}, ${info.provenance}`;
}

function processLines(row: DeviceRow, { columns, style, processes = 5 }: TableOptions): Span[][] {
  if (!isKnown(row.processes))
    return [[span('    processes unknown: they could not be seen', 'dim')]];
  const shown = row.processes.slice(0, processes).map((process) => {
    const name = cutText(
      cleanText(process.name),
      Math.max(0, columns - 26),
      style.unicode ? '…' : '~',
    );
    return [
      span(String(process.pid).padStart(11), 'dim'),
      span(formatBytes(process.usedBytes).padStart(12)),
      span(`  ${name}`),
    ];
  });
  const more = row.processes.length - shown.length;
  return more > 0
    ? [...shown, [span(`    and ${count(more, 'more process', 'more processes')}`, 'dim')]]
    : shown;
}

function widest(
  rows: readonly DeviceRow[],
  text: (row: DeviceRow) => string,
  most: number,
): number {
  return Math.min(most, Math.max(0, ...rows.map((row) => textWidth(text(row)))));
}
