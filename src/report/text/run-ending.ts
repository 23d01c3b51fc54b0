import { placeholdersOf } from '../../run/placeholders.js';
import type { Attempt, RunReport } from '../../run/types.js';
import { outOfMemoryWords, settingsWords, spillWords } from '../../run/words.js';
import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import { shellWords } from '../../units/words.js';
import { reachedWords } from '../progress-lines.js';
import { count, holderWords } from '../words.js';
import { sparkRows } from './charts.js';
import { paintLine, type Span, span, type TextStyle } from './spans.js';
import { cleanText, wrapText } from './text-width.js';

const chartRows = 5;
const widestChart = 80;

/**
 * How a run ended that failed for memory: what held it, its curve, the last lines of the program, and
 * one command to try next; undefined for every other run.
 *
 * @example
 * runEnding(report, { columns: 80, style: { colour: false, unicode: true } });
 */
export function runEnding(
  report: RunReport,
  { columns, style }: { readonly columns: number; readonly style: TextStyle },
): string | undefined {
  const last = report.attempts.at(-1);
  if (report.outcome !== 'failed' || last === undefined || last.outOfMemory === null) {
    return undefined;
  }
  const lines: Span[][] = [
    [
      span(
        `Attempt ${last.number} ran out of memory: ${outOfMemoryWords(last.outOfMemory)}.`,
        'red',
      ),
    ],
    ...heldLines(last, columns),
    ...curveLines(last, columns, style),
    ...outputLines(last),
  ];
  const drawn = lines.map((line) => paintLine(line, columns, style));
  // To be copied, so never cut.
  return [...drawn, 'Try next:', `  ${cleanText(nextCommand(report))}`].join('\n');
}

function heldLines(attempt: Attempt, columns: number): Span[][] {
  const findings = attempt.snapshot?.findings ?? [];
  if (findings.length === 0) return processLines(attempt, columns);
  return [
    [span('What held the memory, by its snapshot:', 'bold')],
    ...findings.flatMap((one) =>
      wrapText(one, columns, '  - ', '    ').map((line) => [span(line)]),
    ),
  ];
}

/** Without a snapshot: the processes, as they were last read. */
function processLines(attempt: Attempt, columns: number): Span[][] {
  const words = holderWords(attempt);
  if (words === undefined) return [];
  return [
    [span(words.title, 'bold')],
    ...words.processes.map(({ bytes, command }) => [
      span(`  ${bytes.padStart(9)}  ${cleanText(command)}`),
    ]),
    ...wrapText(words.note, columns, '  ', '  ').map((line) => [span(line, 'dim')]),
  ];
}

function curveLines({ memory = [], limit }: Attempt, columns: number, style: TextStyle): Span[][] {
  const width = Math.min(columns, widestChart) - 2;
  const end = memory.at(-1)?.atSeconds;
  if (memory.length < 2 || end === undefined || width < 10) return [];
  const highest = memory.reduce((most, { bytes }) => Math.max(most, bytes), 1);
  const top = typeof limit.bytes === 'number' ? Math.max(limit.bytes, highest) : highest;
  const values = Array.from({ length: width }, (_, cell) => {
    const [from, to] = [(cell / width) * end, ((cell + 1) / width) * end];
    const inside = memory.filter(({ atSeconds }) => atSeconds >= from && atSeconds < to);
    const before = memory.findLast(({ atSeconds }) => atSeconds <= from);
    return Math.max(
      ...inside.map(({ bytes }) => bytes),
      inside.length > 0 ? 0 : (before?.bytes ?? 0),
    );
  });
  const line = typeof limit.bytes === 'number' ? limit.bytes : Infinity;
  const rows = sparkRows(values, { width, height: chartRows, top, line, style });
  const scale = typeof limit.bytes === 'number' ? `limit ${formatBytes(limit.bytes)}, ` : '';
  return [
    [
      span(
        `Memory over ${formatSeconds(end)}, measured (${scale}highest sample ${formatBytes(highest)}):`,
        'bold',
      ),
    ],
    ...rows.map((row) => [span('  ')].concat(row)),
  ];
}

function outputLines({ lastLines = [] }: Attempt): Span[][] {
  if (lastLines.length === 0) return [];
  return [
    [span('The last lines of the program:', 'bold')],
    ...lastLines.map((line) => [span('  | ', 'dim'), span(cleanText(line))]),
  ];
}

/** The one that is most likely to help: adapt its options, read its snapshot, or see what would fit. */
export function nextCommand({ command, tryNext, attempts }: RunReport): string {
  if (tryNext !== undefined) return tryNext;
  const snapshot = attempts.at(-1)?.snapshot?.file;
  if (snapshot?.endsWith('.pickle') === true) return `plimsoll snapshot ${shellWords([snapshot])}`;
  // An estimate is of one size: that of the last attempt.
  const isFilled = placeholdersOf(command).size === 0;
  return `plimsoll estimate -- ${shellWords(isFilled ? command : (attempts.at(-1)?.command ?? command))}`;
}

/** A run in one sentence; undefined where nothing happened that a person need know. */
export function runSummary(report: RunReport): string | undefined {
  const { attempts, outcome, notes } = report;
  const last = attempts.at(-1);
  const climbed = attempts.flatMap(({ rungs }) => rungs).length;
  const ranOut = attempts.filter(({ outOfMemory }) => outOfMemory !== null).length;
  if (last === undefined) return undefined;
  const spill = last.spill === undefined ? '' : ` ${spillWords(last.spill)}`;
  if (climbed === 0 && ranOut === 0) return spill === '' ? undefined : `${outcome}.${spill}`;
  const how = `${outcome} after ${count(attempts.length, 'attempt')}`;
  const times = ranOut === 0 ? 'recovered within the program' : `out of memory ${ranOut} x`;
  const why = outcome === 'failed' ? ` ${notes.at(-1) ?? ''}` : '';
  const reached = reachedWords(last.progress);
  const steps = reached === undefined ? '' : ` Last report (measured): ${reached}.`;
  return `${how} (${times}); at the end ${settingsWords(last.settings)}.${spill}${steps}${why}`;
}
