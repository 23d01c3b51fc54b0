import { placesWords } from '../../../../src/run/words.js';
import { formatBytes } from '../../../../src/units/bytes.js';
import { formatSeconds } from '../../../../src/units/durations.js';
import { isKnown, type Known } from '../../../../src/units/known.js';
import type { Attempt, JobView } from '../../api/types.js';
import { declaredSettings } from './job-story.js';

/** One figure or setting of two jobs. */
export interface Compared {
  readonly name: string;
  readonly values: readonly [string, string];
  /** How far the second is from the first, where both are known: `+12 %`. */
  readonly difference: string;
}

type Pair = readonly [JobView, JobView];

interface Figure {
  readonly name: string;
  readonly value: (job: JobView, nowMs: number) => Known<number>;
  readonly words: (value: number) => string;
}

const figures: readonly Figure[] = [
  { name: 'Ran', value: ranSeconds, words: formatSeconds },
  { name: 'Peak memory', value: peakBytes, words: formatBytes },
  {
    name: 'Reserved',
    value: ({ reservation }) => reservation?.bytes ?? 'unknown',
    words: formatBytes,
  },
  { name: 'Attempts', value: attemptCount, words: String },
  { name: 'Out of memory', value: sunkCount, words: (times) => `${times} ×` },
  { name: 'Steps', value: (job) => lastPoint(job)?.step ?? 'unknown', words: String },
  {
    name: 'Samples a second',
    value: (job) => lastPoint(job)?.samplesPerSecond ?? 'unknown',
    words: String,
  },
  {
    name: 'Loss',
    value: (job) => lastPoint(job)?.loss ?? 'unknown',
    words: (loss) => loss.toPrecision(4),
  },
];

/** The figures of two jobs side by side; what is known of neither is left out. */
export function comparedFigures([one, other]: Pair, nowMs: number): readonly Compared[] {
  return figures.flatMap(({ name, value, words }) => {
    const [first, second] = [value(one, nowMs), value(other, nowMs)];
    if (!isKnown(first) && !isKnown(second)) return [];
    const said = (figure: Known<number>) => (isKnown(figure) ? words(figure) : 'unknown');
    return [
      { name, values: [said(first), said(second)], difference: differenceWords(first, second) },
    ];
  });
}

/** Lists the settings, requested or set, that differ. */
export function differingSettings([one, other]: Pair): readonly Compared[] {
  const [first, second] = [settingsOf(one), settingsOf(other)];
  const names = [...new Set([...first.keys(), ...second.keys()])];
  return names.flatMap((name) => {
    const values = [first.get(name) ?? 'not set', second.get(name) ?? 'not set'] as const;
    return values[0] === values[1] ? [] : [{ name, values, difference: '' }];
  });
}

function settingsOf(job: JobView): ReadonlyMap<string, string> {
  const { settings, command } = lastAttempt(job) ?? { settings: undefined, command: job.command };
  const found = new Map(argumentsOf(command));
  if (settings !== undefined) {
    const { checkpointing, precision } = declaredSettings(job.command, settings);
    const { batch_size: batch, accumulation } = settings;
    if (isKnown(batch)) found.set('batch × accumulation', `${batch} × ${accumulation}`);
    if (checkpointing !== undefined) found.set('checkpointing', checkpointing ? 'yes' : 'no');
    if (precision !== undefined) found.set('precision', precision);
  }
  found.set('devices', job.reservation === null ? 'none' : placesWords(job.reservation));
  found.set('priority', String(job.priority));
  found.set('folder', job.cwd);
  return found;
}

/** `--lr 1e-3` is an option with a value; other words are the program. */
function argumentsOf(command: readonly string[]): readonly (readonly [string, string])[] {
  const options: (readonly [string, string])[] = [];
  const words: string[] = [];
  for (let at = 0; at < command.length; at++) {
    const word = command[at] ?? '';
    const next = command[at + 1];
    const equals = word.indexOf('=');
    if (!/^--?[a-z]/i.test(word)) words.push(word);
    else if (equals > 0) options.push([word.slice(0, equals), word.slice(equals + 1)]);
    else if (next === undefined || next.startsWith('-')) options.push([word, 'set']);
    else {
      options.push([word, next]);
      at++;
    }
  }
  return [['command', words.join(' ')], ...options];
}

/** The attempt that tells most: the one that goes on, or the last. */
function lastAttempt(
  job: JobView,
): (Pick<Attempt, 'settings' | 'progress'> & { readonly command: readonly string[] }) | undefined {
  if (job.currentAttempt !== null) return { ...job.currentAttempt, command: job.command };
  return job.attempts.at(-1);
}

function lastPoint(job: JobView) {
  return lastAttempt(job)?.progress?.at(-1);
}

function ranSeconds({ startedAt, endedAt }: JobView, nowMs: number): Known<number> {
  if (startedAt === null) return 'unknown';
  return Math.max(
    0,
    ((endedAt === null ? nowMs : Date.parse(endedAt)) - Date.parse(startedAt)) / 1000,
  );
}

function peakBytes({ attempts }: JobView): Known<number> {
  const known = attempts.flatMap(({ peakBytes: bytes }) => (isKnown(bytes) ? [bytes] : []));
  return known.length === 0 ? 'unknown' : Math.max(...known);
}

function attemptCount({ attempts, currentAttempt }: JobView): number {
  return attempts.length + (currentAttempt === null ? 0 : 1);
}

function sunkCount({ attempts }: JobView): number {
  return attempts.filter(({ outOfMemory }) => outOfMemory !== null).length;
}

function differenceWords(first: Known<number>, second: Known<number>): string {
  if (!isKnown(first) || !isKnown(second)) return '';
  if (first === second) return 'the same';
  if (first === 0) return '';
  const percent = ((second - first) / Math.abs(first)) * 100;
  const digits = Math.abs(percent) < 10 ? 1 : 0;
  return `${percent > 0 ? '+' : '−'}${Math.abs(percent).toFixed(digits)} %`;
}
