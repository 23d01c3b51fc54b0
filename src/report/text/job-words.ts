import type { JobView } from '../../jobs/daemon/types.js';
import { hasEnded } from '../../jobs/types.js';
import { formatBytes } from '../../units/bytes.js';
import { isKnown } from '../../units/known.js';
import { count } from '../words.js';
import { neededWords, reservedWords, waitingWords } from './job-text.js';
import { jobTime } from './jobs-table.js';
import { cleanText, cutText } from './text-width.js';

/** A name may be a whole command; in a sentence its beginning is enough. */
const longestName = 40;

/** `job 12 (train.py)`. */
export function jobName({ id, name }: Pick<JobView, 'id' | 'name'>): string {
  const job = `job ${cleanText(id)}`;
  return name === '' ? job : `${job} (${cutText(cleanText(name), longestName, '...')})`;
}

/**
 * Where a job stands, in a few sentences.
 *
 * @example
 * jobStandsWords(job, Date.now()); // 'job 12 (train.py) waits for 6.0 GiB (stated). It is next.'
 */
export function jobStandsWords(job: JobView, nowMs: number): string {
  const degraded = job.degraded === null ? '' : ` ${job.degraded.why}`;
  if (job.state === 'waiting') {
    const need = `${jobName(job)} waits for ${neededWords(job.need)}.`;
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
