import { formatBytes } from '../../../units/bytes.js';
import { formatSeconds } from '../../../units/durations.js';
import { isKnown } from '../../../units/known.js';
import type { ProcessRow } from '../../monitor/process-row.js';
import { percentWords, rateWords } from '../../words.js';
import { sparkRows } from '../charts/sparkline.js';
import { type Span, span, type TextStyle } from '../spans.js';
import { cleanText, fitText } from '../text-width.js';
import { wrapText } from '../wrap-text.js';

const nameWidth = 13;
const leastChart = 3;

/** All about one process: who it is, what it holds, and a chart of it. */
export function processPage(
  row: ProcessRow | undefined,
  { columns, height, style }: { columns: number; height: number; style: TextStyle },
): Span[][] {
  if (row === undefined) return [[span('The process has ended.', 'dim')]];
  const lines = facts(row).flatMap(([name, text]) =>
    wrapText(text, Math.max(20, columns - nameWidth)).map((line, index) => [
      span(fitText(index === 0 ? name : '', nameWidth), 'dim'),
      span(line),
    ]),
  );
  const chartHeight = height - lines.length - 3;
  if (chartHeight < leastChart) return lines;
  const most = row.trail.reduce((top, value) => (value > top ? value : top), 1);
  const chart = sparkRows(row.trail, {
    width: Math.max(1, columns),
    height: chartHeight,
    top: most,
    line: Infinity,
    style,
  });
  const title = `Memory since it was first seen here, highest ${formatBytes(Math.round(most))} (${row.isSimulated ? 'simulated' : 'measured'})`;
  return [...lines, [], [span(title, 'bold')], ...chart];
}

function facts(row: ProcessRow): (readonly [string, string])[] {
  const used =
    row.usedBytes === 'none'
      ? 'none on a device that is watched'
      : `${formatBytes(row.usedBytes)} of ${row.deviceId}${row.sharePercent === 'none' ? '' : `, ${percentWords(row.sharePercent, 1)}`}`;
  return [
    ['process', `${row.pid}, started by ${row.parent}`],
    ['user', row.user],
    ['command', cleanText(row.command)],
    ['memory', used],
    ['growth', growthWords(row)],
    ['host', formatBytes(row.hostBytes)],
    ['processor', `${percentWords(row.cpuPercent)} of one core`],
    ['running for', isKnown(row.ageSeconds) ? formatSeconds(row.ageSeconds) : 'unknown'],
    ['job', row.job === 'none' ? 'none of plimsoll' : row.job],
    ['container', row.container],
    ...(row.isSimulated ? [['source', 'simulated: there is no such process'] as const] : []),
  ];
}

function growthWords({ growth, pid }: ProcessRow): string {
  if (growth === 'none') return 'none seen';
  const rate = isKnown(growth) ? rateWords(growth) : 'at an unknown rate';
  return `grows by ${rate}; next: plimsoll leak --check --pid ${pid}`;
}
