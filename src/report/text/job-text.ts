import type { JobView } from '../../jobs/daemon/types.js';
import { degradedSettingsWords } from '../../jobs/degraded.js';
import { ownerName } from '../../jobs/types.js';
import { changeWords } from '../../plan/environment/job-environment.js';
import type { Attempt } from '../../run/types.js';
import { outOfMemoryWords, placesWords, settingsWords } from '../../run/words.js';
import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import { isKnown } from '../../units/known.js';
import { shellWords } from '../../units/shell-words.js';
import { reachedWords } from '../progress-lines.js';
import { percentOf, percentWords, utcWords } from '../words.js';
import { expectedWords, type JobsTableOptions, jobTime, statePaint } from './jobs-table.js';
import { paintLine, type Span, span } from './spans.js';
import { cleanText } from './text-width.js';
import { wrapText } from './wrap-text.js';

/** Wide enough for the longest label below. */
const labelWidth = 11;

/**
 * All that is known of one job, for people: what it asked for, what it got, and every attempt.
 *
 * @example
 * jobText(job, { columns: 80, nowMs: Date.now(), style: { colour: false, unicode: true } });
 */
export function jobText(job: JobView, options: JobsTableOptions): string {
  const { columns, style, nowMs } = options;
  const labelled = (label: string, text: string): Span[][] =>
    wrapText(text, columns - labelWidth - 2).map((line, index) => [
      span((index === 0 ? label : '').padEnd(labelWidth), 'dim'),
      span(line),
    ]);
  const lines: Span[][] = [
    [
      span(`Job ${cleanText(job.id)}  `, 'bold'),
      span(`${cleanText(job.name)}  `),
      span(job.state, statePaint(job.state)),
      span(`  ${jobTime(job, nowMs)}`, 'dim'),
    ],
    ...labelled('why', job.waiting === null ? job.reason : waitingWords(job, nowMs)),
    ...labelled('order', job.waiting?.order ?? ''),
    ...labelled('owner', job.owner === ownerName ? '' : job.owner),
    ...labelled('command', shellWords(job.command)),
    ...labelled('in', job.cwd),
    ...labelled('times', timesOf(job)),
    ...labelled('reserved', reservedWords(job)),
    ...labelled('need', needWords(job)),
    ...labelled('measured', measuredWords(job)),
    ...labelled('degraded', degradedWords(job)),
    ...job.environmentChanges.flatMap((change, at) =>
      labelled(at === 0 ? 'changed' : '', changeWords(change)),
    ),
    ...job.attempts.flatMap((attempt) => [
      ...labelled(`attempt ${attempt.number}`, attemptWords(attempt)),
      ...labelled('', reachedWords(attempt.progress) ?? ''),
      ...attempt.rungs.flatMap(({ rung, why }) => labelled('', `${rung}: ${why}`)),
    ]),
    ...(job.currentAttempt === null ? [] : currentAttemptLines(job.currentAttempt, labelled)),
    ...labelled('log', `${formatBytes(job.log.bytes)}; "plimsoll logs ${job.id}" shows it`),
  ];
  return lines.map((line) => paintLine(line, columns, style).trimEnd()).join('\n');
}

function currentAttemptLines(
  { number, settings, rungs, progress }: NonNullable<JobView['currentAttempt']>,
  labelled: (label: string, text: string) => Span[][],
): Span[][] {
  return [
    ...labelled(`attempt ${number}`, `${settingsWords(settings)}, goes on`),
    ...labelled('', reachedWords(progress) ?? ''),
    ...rungs.flatMap(({ rung, why }) => labelled('', `${rung}: ${why}`)),
  ];
}

/** Its place, the reason, and when it should start. */
export function waitingWords({ waiting, reason }: JobView, nowMs: number): string {
  if (waiting === null) return reason;
  const { position, why, expectedStartAt, expiresAt } = waiting;
  return [
    position === 1 ? 'It is next.' : position > 1 ? `It is number ${position} in the queue.` : '',
    why || reason,
    expectedWords(expectedStartAt, nowMs),
    expiresAt === null ? '' : `It gives up at ${utcWords(Date.parse(expiresAt))}.`,
  ]
    .filter((text) => text !== '')
    .join(' ');
}

function timesOf({ submittedAt, startedAt, endedAt }: JobView): string {
  const rows = [
    ['submitted', submittedAt],
    ['started', startedAt],
    ['ended', endedAt],
  ] as const;
  return rows
    .flatMap(([what, at]) => (at === null ? [] : [`${what} ${utcWords(Date.parse(at))}`]))
    .join(', ');
}

/** `6.0 GiB on gpu:0 (stated)`; empty while nothing is. */
export function reservedWords({ reservation, usedBytes, state }: JobView): string {
  if (reservation === null) return '';
  const { bytes, devices, basis, simulated = false } = reservation;
  const each = devices.length > 1 ? ' each' : '';
  const now =
    state === 'running'
      ? `; it holds ${formatBytes(usedBytes)} now (${simulated ? 'simulated' : 'measured'})`
      : '';
  const from = basis === 'unknown' ? 'all of it: no estimate yet' : basis;
  return `${formatBytes(bytes)}${each} on ${placesWords(reservation)} (${from})${now}`;
}

/** `6.0 GiB (stated)`; of a job of which nothing is known there is no figure to tell. */
export function neededWords({ bytes, basis }: Pick<JobView['need'], 'bytes' | 'basis'>): string {
  return basis === 'unknown' ? 'a whole device' : `${formatBytes(bytes)} (${basis})`;
}

function needWords({ need }: JobView): string {
  const { bytes, basis, why, estimatedBytes } = need;
  const before =
    isKnown(estimatedBytes) && estimatedBytes !== bytes
      ? ` Estimated were ${formatBytes(estimatedBytes)}.`
      : '';
  // The evidence of what was stated begins with the same words.
  const figure = basis === 'stated' || basis === 'unknown' ? '' : `${neededWords(need)}. `;
  return `${figure}${why}${before}`;
}

/** The highest of all attempts, beside what it was thought to need. */
function measuredWords({ attempts, need }: JobView): string {
  const peaks = attempts.flatMap(({ peakBytes }) => (isKnown(peakBytes) ? [peakBytes] : []));
  if (peaks.length === 0) return '';
  const peak = Math.max(...peaks);
  const source = attempts.find(({ peakBytes }) => peakBytes === peak)?.source ?? 'measured';
  const share =
    need.basis === 'unknown' ? '' : `, ${percentWords(percentOf(peak, need.bytes))} of the need`;
  return `${formatBytes(peak)} at most (${source})${share}`;
}

/** The sentence is in the reason, too, which of a waiting job is not shown. */
function degradedWords({ degraded, waiting }: JobView): string {
  if (degraded === null) return '';
  return waiting === null ? degradedSettingsWords(degraded) : degraded.why;
}

function attemptWords(attempt: Attempt): string {
  const { settings, startedAt, endedAt, exitCode, peakBytes, source, outOfMemory } = attempt;
  const seconds = (Date.parse(endedAt) - Date.parse(startedAt)) / 1000;
  const asked = outOfMemory?.askedBytes ?? 'unknown';
  const end =
    outOfMemory === null
      ? `exit code ${exitCode}`
      : `${outOfMemoryWords(outOfMemory)}${isKnown(asked) ? `, asking for ${formatBytes(asked)}` : ''}`;
  const peak = isKnown(peakBytes) ? `peak ${formatBytes(peakBytes)} (${source})` : 'peak unknown';
  return [settingsWords(settings), formatSeconds(Math.max(0, seconds)), peak, end].join(', ');
}
