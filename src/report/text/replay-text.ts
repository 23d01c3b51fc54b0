import { formatSeconds } from '../../units/durations.js';
import { isKnown } from '../../units/known.js';
import { causeWords, fullWords, rateWords } from '../words.js';
import { riskPaint } from './charts/marks.js';
import {
  type ReplayAlarm,
  type ReplayOptions,
  type ReplayResult,
  type ReplayTrace,
  replayChart,
} from './charts/replay-chart.js';
import { paintLine, type Span, span } from './spans.js';

export type { ReplayResult, ReplayTrace } from './charts/replay-chart.js';

/**
 * What `plimsoll replay` shows a person: the recorded series, the alarms under the instants they
 * were raised at, and the verdict.
 *
 * @example
 * console.log(replayText(result, trace, { columns: 80, rows: 12, loadLinePercent: 90,
 *   style: { colour: false, unicode: true } }));
 */
export function replayText(
  result: ReplayResult,
  trace: ReplayTrace,
  options: ReplayOptions,
): string {
  const { columns, style } = options;
  const lines = [
    ...replayChart(result, trace, options),
    [],
    ...result.alarms.map((alarm, index) => alarmLine(alarm, index)),
    ...verdict(result, trace).map((text) => [span(text)]),
  ];
  return lines.map((line) => paintLine(line, columns, style)).join('\n');
}

function alarmLine(alarm: ReplayAlarm, index: number): Span[] {
  const full = fullWords(alarm);
  return [
    span(`${index + 1}. `.padStart(5), 'dim'),
    span(`after ${formatSeconds(alarm.atSeconds)}: `),
    span(`risk ${alarm.risk}`, riskPaint(alarm.risk)),
    span(full === undefined ? '' : `, ${full}, estimated`),
  ];
}

function verdict({ alarms, leak, cause }: ReplayResult, trace: ReplayTrace): string[] {
  const end = trace.seconds.at(-1) ?? 0;
  const first = alarms.find(({ risk }) => risk === 'high' || risk === 'critical');
  const warned = first
    ? `Warned ${formatSeconds(Math.max(0, end - first.atSeconds))} before the recording ends.`
    : 'The limit is not expected within a minute anywhere in the recording.';
  const leaks =
    leak.found === 'unknown'
      ? `Whether it leaks is unknown${growing(leak.bytesPerSecond)}.`
      : leak.found
        ? `It leaks ${rateWords(leak.bytesPerSecond)}.`
        : 'No leak was found.';
  const reason = isKnown(cause) && cause !== 'none' ? [`Likely cause: ${causeWords(cause)}.`] : [];
  return [warned, leaks, ...reason];
}

function growing(bytesPerSecond: ReplayResult['leak']['bytesPerSecond']): string {
  return isKnown(bytesPerSecond) ? `: memory grew by ${rateWords(bytesPerSecond)} at the end` : '';
}
