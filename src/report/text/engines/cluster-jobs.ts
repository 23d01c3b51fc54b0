import type { ClusterAttempt, ClusterJob, ClusterState } from '../../../engine/cluster.js';
import { formatBytes } from '../../../units/bytes.js';
import { formatSeconds } from '../../../units/durations.js';
import { isKnown, type Known } from '../../../units/known.js';
import { type Paint, paintLine, span, type TextStyle } from '../spans.js';
import { cleanText, fitText, textWidth } from '../text-width.js';

const paints: Readonly<Record<ClusterState, Paint>> = {
  waiting: 'yellow',
  running: 'cyan',
  succeeded: 'green',
  failed: 'red',
  cancelled: 'dim',
  unknown: 'red',
};

const tableColumns: readonly {
  readonly title: string;
  readonly widest: number;
  readonly cell: (job: ClusterJob, nowMs: number) => string;
}[] = [
  { title: 'ID', widest: 26, cell: ({ id }) => id },
  { title: 'NAME', widest: 24, cell: ({ name }) => name },
  { title: 'STATE', widest: 24, cell: stateWords },
  { title: 'RESERVED', widest: 26, cell: (job) => reservedWords(job) },
  { title: 'PEAK', widest: 10, cell: ({ attempts }) => bytesOrDash(attempts.at(-1)?.peakBytes) },
  { title: 'TRIES', widest: 5, cell: ({ attempts }) => String(attempts.length) },
  { title: 'NODES', widest: 16, cell: ({ nodes }) => nodes },
  { title: 'SUBMITTED', widest: 14, cell: ({ submittedAt }, nowMs) => ago(submittedAt, nowMs) },
];

/** Jobs of a cluster as lines of a table, with why each waits or how it ended. */
export function clusterJobsTable(
  jobs: readonly ClusterJob[],
  { columns, style, nowMs }: { columns: number; style: TextStyle; nowMs: number },
): readonly string[] {
  const mark = style.unicode ? '…' : '~';
  const cells = tableColumns.map(({ title, widest, cell }) => {
    const texts = jobs.map((job) => cleanText(cell(job, nowMs)));
    const width = Math.min(widest, Math.max(...[title, ...texts].map(textWidth)));
    return [title, ...texts].map((text) => `${fitText(text, width, mark)}  `);
  });
  return [undefined, ...jobs].map((job, row) => {
    const spans = cells.map((column, index) => {
      const isState = tableColumns[index]?.title === 'STATE';
      if (job === undefined) return span(column[row] ?? '', 'dim');
      return span(column[row] ?? '', isState ? paints[job.state] : undefined);
    });
    return paintLine([...spans, span(cleanText(job?.why ?? ''), 'dim')], columns, style).trimEnd();
  });
}

/** One sentence: what was asked for, and how it stands. */
export function clusterJobText(job: ClusterJob): string {
  const request = job.attempts.at(-1)?.request;
  const asked = request === undefined ? '' : `, ${request}`;
  const why = job.why === '' ? '' : ` (${job.why})`;
  return cleanText(`Job ${job.id} (${job.name}${asked}) is ${stateWords(job)}${why}.`);
}

/** All that is known of one job. */
export function clusterJobLines(job: ClusterJob): readonly string[] {
  return [
    clusterJobText(job),
    `Command:   ${job.command.join(' ')}`,
    `Need:      ${job.gpus === 0 ? 'host memory' : `${job.gpus} x GPU`}, ${bytesWords(job.needBytes)} (${job.basis})`,
    ...(job.nodes === '' ? [] : [`Nodes:     ${job.nodes}`]),
    ...job.attempts.map(attemptLine),
  ].map(cleanText);
}

function attemptLine(attempt: ClusterAttempt): string {
  const { number, clusterId, request, reservedBytes, peakBytes, outOfMemory } = attempt;
  const limit = isKnown(reservedBytes) ? `, limited to ${formatBytes(reservedBytes)}` : '';
  const peak = isKnown(peakBytes) ? `, peak ${formatBytes(peakBytes)} (measured)` : '';
  return `Attempt ${number}: job ${clusterId}, ${request}${limit}${peak}${outOfMemory ? ', out of memory' : ''}`;
}

function stateWords({ state, tasks }: ClusterJob): string {
  if (tasks === null) return state;
  return Object.entries(tasks)
    .map(([name, count]) => `${count} ${name}`)
    .join(', ');
}

function reservedWords({ attempts, needBytes, gpus }: ClusterJob): string {
  const last = attempts.at(-1);
  const bytes = last !== undefined && isKnown(last.reservedBytes) ? last.reservedBytes : needBytes;
  const times = gpus > 1 ? `${gpus} x ` : '';
  if (last !== undefined && !isKnown(last.reservedBytes) && gpus > 0) return `${times}whole GPU`;
  return `${times}${bytesWords(bytes)}`;
}

function bytesWords(bytes: Known<number>): string {
  return isKnown(bytes) ? formatBytes(bytes) : 'unknown';
}

function bytesOrDash(bytes: Known<number> | undefined): string {
  return bytes === undefined || !isKnown(bytes) ? '-' : formatBytes(bytes);
}

function ago(at: string, nowMs: number): string {
  const seconds = Math.max(0, Math.round((nowMs - Date.parse(at)) / 1000));
  return `${seconds < 10 ? `${seconds} s` : formatSeconds(seconds)} ago`;
}
