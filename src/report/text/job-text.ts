import type { JobSummary, JobView } from '../../jobs/daemon/types.js';
import { degradedSettingsWords } from '../../jobs/degraded.js';
import { hasEnded, type JobState, ownerName } from '../../jobs/types.js';
import { changeWords } from '../../plan/environment/job-environment.js';
import type { Attempt } from '../../run/types.js';
import { outOfMemoryWords, placesWords, settingsWords } from '../../run/words.js';
import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import { isKnown } from '../../units/known.js';
import { shellWords } from '../../units/words.js';
import { reachedWords } from '../progress-lines.js';
import { count, percentOf, percentWords, utcWords } from '../words.js';
import { type Paint, paintLine, type Span, span, type TextStyle } from './spans.js';
import { cleanText, cutText, fitText, textWidth, wrapText } from './text-width.js';

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
function waitingWords({ waiting, reason }: JobView, nowMs: number): string {
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
function reservedWords({ reservation, usedBytes, state }: JobView): string {
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
function neededWords({ bytes, basis }: Pick<JobView['need'], 'bytes' | 'basis'>): string {
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

interface JobsTableOptions {
  readonly columns: number;
  readonly style: TextStyle;
  readonly nowMs: number;
}

const paints: Readonly<Record<JobState, Paint>> = {
  waiting: 'yellow',
  running: 'cyan',
  succeeded: 'green',
  failed: 'red',
  cancelled: 'dim',
  refused: 'red',
  expired: 'red',
};

function statePaint(state: JobState): Paint {
  return paints[state];
}

interface Column {
  readonly title: string;
  /** Wider text is cut. */
  readonly widest: number;
  readonly cell: (job: JobSummary, nowMs: number) => string;
  readonly isShown?: (jobs: readonly JobSummary[]) => boolean;
}

const tableColumns: readonly Column[] = [
  { title: 'ID', widest: 12, cell: ({ id }) => id },
  { title: 'NAME', widest: 24, cell: ({ name }) => name },
  {
    title: 'OWNER',
    widest: 16,
    cell: ({ owner }) => owner,
    // Where all are of who started the server, it says nothing.
    isShown: (jobs) => jobs.some(({ owner }) => owner !== ownerName),
  },
  { title: 'STATE', widest: 9, cell: ({ state }) => state },
  { title: 'MEMORY', widest: 24, cell: memoryOf },
  {
    title: 'ON',
    widest: 20,
    cell: ({ reservation }) => (reservation === null ? '' : placesWords(reservation, ' ')),
  },
  { title: 'TIME', widest: 22, cell: jobTime },
];

/**
 * Jobs as lines of a table: those that run, those that wait in the order of their turns, then those
 * that ended, the newest first. Behind each: why it waits, or what became of it.
 *
 * @example
 * jobsTable(jobs, { columns: 80, nowMs: Date.now(), style: { colour: false, unicode: true } });
 */
export function jobsTable(jobs: readonly JobSummary[], options: JobsTableOptions): string[] {
  const { columns, style, nowMs } = options;
  const mark = style.unicode ? '…' : '~';
  const rows = jobs.toSorted(byTurn);
  const shown = tableColumns.filter(({ isShown }) => isShown?.(rows) ?? true);
  const cells = shown.map(({ title, widest, cell }) => {
    const texts = rows.map((job) => cleanText(cell(job, nowMs)));
    const width = Math.min(widest, Math.max(...[title, ...texts].map(textWidth)));
    return [title, ...texts].map((text) => `${fitText(text, width, mark)}  `);
  });
  return [undefined, ...rows].map((job, row) => {
    const spans = cells.map((column, index) => {
      const isState = shown[index]?.title === 'STATE';
      if (job === undefined) return span(column[row] ?? '', 'dim');
      return span(column[row] ?? '', isState ? paints[job.state] : undefined);
    });
    const note = job === undefined ? '' : cleanText(noteOf(job, nowMs));
    return paintLine([...spans, span(note, 'dim')], columns, style).trimEnd();
  });
}

const ranks: Readonly<Partial<Record<JobState, number>>> = { running: 0, waiting: 1 };

function byTurn(a: JobSummary, b: JobSummary): number {
  const rank = (ranks[a.state] ?? 2) - (ranks[b.state] ?? 2);
  if (rank !== 0) return rank;
  // Beyond the first hundred places are not counted: the older one comes first.
  if (a.waiting && b.waiting) {
    return (
      (a.waiting.position || Infinity) - (b.waiting.position || Infinity) ||
      Date.parse(a.submittedAt) - Date.parse(b.submittedAt)
    );
  }
  return lastChange(b) - lastChange(a);
}

function lastChange({ endedAt, startedAt, submittedAt }: JobSummary): number {
  return Date.parse(endedAt ?? startedAt ?? submittedAt);
}

function memoryOf({ reservation, need, gpus, waiting }: JobSummary): string {
  const { bytes, basis } = reservation ?? need;
  if (need.whyDetails?.code === 'estimating') return waiting === null ? '' : 'being estimated';
  const devices = reservation?.devices.length ?? Math.max(1, gpus);
  const times = devices > 1 ? `${devices} x ` : '';
  if (basis === 'unknown' && reservation === null) return `${times}a whole device`;
  return `${times}${formatBytes(bytes)} ${basis === 'unknown' ? 'all of it' : basis}`;
}

/** How long it waits, runs, or ran. */
function jobTime(job: JobSummary, nowMs: number): string {
  const { submittedAt, startedAt, endedAt } = job;
  const end = endedAt === null ? nowMs : Date.parse(endedAt);
  if (startedAt === null) {
    return `${hasEnded(job.state) ? 'waited' : 'waits'} ${since(submittedAt, end)}`;
  }
  return `${hasEnded(job.state) ? 'ran' : 'runs'} ${since(startedAt, end)}`;
}

/** Whole seconds: tenths that jump are no help in a table. */
function since(from: string, toMs: number): string {
  const seconds = Math.max(0, Math.round((toMs - Date.parse(from)) / 1000));
  return seconds < 10 ? `${seconds} s` : formatSeconds(seconds);
}

/** Why it waits, what it went through, or how it ended. */
function noteOf(job: JobSummary, nowMs: number): string {
  const ranOut = job.attempts.filter(({ outOfMemory }) => outOfMemory !== null).length;
  const through = ranOut === 0 ? '' : `Ran out of memory ${ranOut} x and was recovered.`;
  if (job.waiting === null) {
    const brought = hasEnded(job.state) && job.state !== 'succeeded' ? '' : through;
    return [job.reason, brought].filter((text) => text !== '').join(' ');
  }
  const { why, expectedStartAt } = job.waiting;
  const degraded =
    job.degraded === null ? '' : `Degraded to ${degradedSettingsWords(job.degraded)}.`;
  return [degraded, why || job.reason, expectedWords(expectedStartAt, nowMs)]
    .filter((text) => text !== '')
    .join(' ');
}

/** `Expected to start in 3 min.`; empty where it is not known. */
function expectedWords(at: string, nowMs: number): string {
  if (!isKnown(at)) return '';
  const seconds = Math.round((Date.parse(at) - nowMs) / 1000);
  return seconds < 1 ? '' : `Expected to start in ${formatSeconds(seconds)}.`;
}

/** A name may be a whole command; in a sentence its beginning is enough. */
const longestName = 40;

/** `job 12 (train.py)`. */
export function jobName({ id, name }: Pick<JobView, 'id' | 'name'>): string {
  const job = `job ${cleanText(id)}`;
  return name === '' ? job : `${job} (${cutText(cleanText(name), longestName, '...')})`;
}

/**
 * Describes the state of a job in a few sentences.
 *
 * @example
 * jobStandsWords(job, Date.now()); // 'job 12 (train.py) waits for 6.0 GiB (stated). It is next.'
 */
export function jobStandsWords(job: JobView, nowMs: number): string {
  const degraded = job.degraded === null ? '' : ` ${job.degraded.why}`;
  if (job.state === 'waiting') {
    const isKnownYet = job.need.whyDetails?.code !== 'estimating';
    const need = `${jobName(job)} waits${isKnownYet ? ` for ${neededWords(job.need)}` : ''}.`;
    return cleanText(`${need}${degraded} ${waitingWords(job, nowMs)}`);
  }
  if (job.state !== 'running') return jobEndWords(job);
  // What it holds now changes too fast for a sentence that stays.
  const reserved = reservedWords({ ...job, state: 'succeeded' });
  return cleanText(`${jobName(job)} runs; reserved: ${reserved}.${degraded}`);
}

/** The same for somebody who just sent it, with what to type next. */
export function submittedWords(job: JobView, nowMs: number): string {
  const stands = jobStandsWords(job, nowMs);
  return hasEnded(job.state)
    ? stands
    : `${stands} "plimsoll logs -f ${cleanText(job.id)}" follows it.`;
}

/** How it ended, with what it took beside what was reserved. */
export function jobEndWords(job: JobView): string {
  const peaks = job.attempts.flatMap(({ peakBytes }) => (isKnown(peakBytes) ? [peakBytes] : []));
  const ranOut = job.attempts.filter(({ outOfMemory }) => outOfMemory !== null).length;
  const parts = [
    job.startedAt === null ? '' : jobTime(job, Date.parse(job.endedAt ?? job.startedAt)),
    ranOut === 0 ? '' : `out of memory ${ranOut} x`,
    peaks.length === 0 ? '' : `peak ${formatBytes(Math.max(...peaks))} measured`,
    job.reservation === null ? '' : `${formatBytes(job.reservation.bytes)} reserved`,
  ].filter((part) => part !== '');
  const details = parts.length === 0 ? '' : ` (${parts.join(', ')})`;
  const how = ['succeeded', 'failed', 'expired'].includes(job.state)
    ? job.state
    : `was ${job.state}`;
  const why = job.reason === '' ? '.' : `: ${job.reason}`;
  return cleanText(`${jobName(job)} ${how}${details}${why}`);
}

/** How many jobs there are in each state, in a sentence. */
export function countsWords(
  counts: Readonly<Record<string, number>>,
  shown: readonly unknown[],
): string {
  const states = Object.entries(counts).filter(([, number]) => number > 0);
  const all = states.reduce((sum, [, number]) => sum + number, 0);
  if (all === 0) return 'There is no job yet. Send one: plimsoll submit -- python train.py';
  const words = states.map(([state, number]) => `${number.toLocaleString('en-US')} ${state}`);
  const more =
    all > shown.length
      ? ` ${count(shown.length, 'job is', 'jobs are')} shown; --all shows all.`
      : '';
  return `${words.join(', ')}.${more}`;
}
