import type { JobSummary } from '../../jobs/daemon/types.js';
import { degradedSettingsWords } from '../../jobs/degraded.js';
import { hasEnded, type JobState, ownerName } from '../../jobs/types.js';
import { placesWords } from '../../run/words.js';
import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import { isKnown } from '../../units/known.js';
import { type Paint, paintLine, span, type TextStyle } from './spans.js';
import { cleanText, fitText, textWidth } from './text-width.js';

export interface JobsTableOptions {
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

export function statePaint(state: JobState): Paint {
  return paints[state];
}

interface Column {
  readonly title: string;
  /** What is wider is cut. */
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

function memoryOf({ reservation, need, gpus }: JobSummary): string {
  const { bytes, basis } = reservation ?? need;
  const devices = reservation?.devices.length ?? Math.max(1, gpus);
  const times = devices > 1 ? `${devices} x ` : '';
  if (basis === 'unknown' && reservation === null) return `${times}a whole device`;
  return `${times}${formatBytes(bytes)} ${basis === 'unknown' ? 'all of it' : basis}`;
}

/** How long it waits, runs, or ran. */
export function jobTime(job: JobSummary, nowMs: number): string {
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
export function expectedWords(at: string, nowMs: number): string {
  if (!isKnown(at)) return '';
  const seconds = Math.round((Date.parse(at) - nowMs) / 1000);
  return seconds < 1 ? '' : `Expected to start in ${formatSeconds(seconds)}.`;
}
