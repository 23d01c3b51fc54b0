import { constants } from 'node:os';
import type { RunNews } from '../../../engine/types.js';
import type { Attempt } from '../../../run/types.js';
import { settingsWords } from '../../../run/words.js';
import { formatBytes } from '../../../units/bytes.js';
import { isKnown, type Known } from '../../../units/known.js';
import type { Ending } from '../../store/records.js';
import type { JobState } from '../../types.js';

export interface JobEnd {
  readonly state: Extract<JobState, 'succeeded' | 'failed' | 'cancelled'>;
  readonly reason: string;
}

/** How a job ended whose run is over, in words for people. */
export function endOf(options: {
  readonly news: Extract<RunNews, { type: 'finished' | 'lost' }>;
  readonly attempts: readonly Attempt[];
  /** What was decided before. */
  readonly ending: Ending | undefined;
  /** Whether anybody asked the run to end. */
  readonly wasStopped: boolean;
}): JobEnd {
  const { news, attempts, ending, wasStopped } = options;
  if (news.type === 'lost') return ending ?? { state: 'failed', reason: news.why };
  // It had come to its end by itself before anybody could ask.
  const byItself = news.outcome === 'succeeded' && !wasStopped;
  if (ending !== undefined && !byItself) return ending;
  if (news.outcome === 'succeeded') return { state: 'succeeded', reason: recovery(attempts) };
  const last = attempts.at(-1);
  if (news.outcome === 'interrupted') {
    const how = exitWords(news.exitCode);
    return { state: 'failed', reason: `It was interrupted from outside. ${how}` };
  }
  const reason = news.why ?? outOfMemoryWords(attempts, last) ?? exitWords(news.exitCode);
  return { state: 'failed', reason };
}

function recovery(attempts: readonly Attempt[]): string {
  const last = attempts.at(-1);
  if (attempts.length < 2 || last === undefined) return '';
  const settings = settingsWords(last.settings);
  const how = settings === '' ? '' : ` with ${settings}`;
  return `It ran out of memory ${times(attempts.length - 1)} and was recovered${how}.`;
}

function outOfMemoryWords(
  attempts: readonly Attempt[],
  last: Attempt | undefined,
): string | undefined {
  if (last === undefined || last.outOfMemory === null) return undefined;
  const { askedBytes } = last.outOfMemory;
  const asked = isKnown(askedBytes)
    ? `; the last time it asked for ${formatBytes(askedBytes)}`
    : '';
  const held = isKnown(last.peakBytes) ? ` when it held ${formatBytes(last.peakBytes)}` : '';
  const n = attempts.filter(({ outOfMemory }) => outOfMemory !== null).length;
  return `It ran out of memory ${times(n)}${asked}${held}.`;
}

function exitWords(exitCode: Known<number>): string {
  if (!isKnown(exitCode)) return 'How it ended is unknown.';
  const signal = Object.entries(constants.signals).find(([, number]) => number === exitCode - 128);
  return signal === undefined
    ? `It ended with exit code ${exitCode}.`
    : `It was ended by ${signal[0]} (exit code ${exitCode}).`;
}

function times(n: number): string {
  return n === 1 ? 'once' : `${n} times`;
}
