import type { DeviceReport, ProfileReport } from '../../report/report-shape.js';
import { sparkRows } from '../../report/text/charts/sparkline.js';
import { paintLine, span, type TextStyle } from '../../report/text/spans.js';
import { cleanText } from '../../report/text/text-width.js';
import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import { isKnown } from '../../units/known.js';

const chartRows = 5;
const maxColumns = 100;

export interface ChartOptions {
  readonly columns: number;
  readonly loadLinePercent: number;
  readonly style: TextStyle;
}

/** Memory use over the time of a profile, a few lines for each device. */
export function profileChart(report: ProfileReport, options: ChartOptions): string {
  return Object.values(report.devices)
    .flatMap((device) => deviceChart(device, options))
    .join('\n');
}

function deviceChart(device: DeviceReport, { columns, loadLinePercent, style }: ChartOptions) {
  const width = Math.min(columns, maxColumns) - 2;
  const { totalBytes } = device.currentUsage;
  if (!isKnown(totalBytes) || width < 10) return [];
  const values = device.series.usedBytes.max.map((value) => (isKnown(value) ? value : Number.NaN));
  // Few values are stretched over the whole width: the end of the line is the end of the profile.
  const stretched = Array.from(
    { length: Math.max(width, values.length) },
    (_, index) => values[Math.floor((index * values.length) / Math.max(width, values.length))] ?? 0,
  );
  const rows = sparkRows(stretched, {
    width,
    height: chartRows,
    top: totalBytes,
    line: (totalBytes * loadLinePercent) / 100,
    style,
  });
  const end = formatSeconds(device.series.seconds.at(-1) ?? 0);
  const title = `${device.id}  ${device.name}, ${formatBytes(totalBytes)}, ${device.provenance}`;
  return [
    [span(cleanText(title), 'bold')],
    ...rows.map((row) => [span('  ')].concat(row)),
    [span(`  0 s${end.padStart(width - 3)}`, 'dim')],
    [],
  ].map((line) => paintLine(line, columns, style));
}
