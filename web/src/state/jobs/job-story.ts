import { reasonWords } from '../../../../src/jobs/reasons/words.js';
import { placeholdersOf } from '../../../../src/run/placeholders.js';
import {
  outOfMemoryWords,
  placesWords,
  settingsWords,
  spillWords,
} from '../../../../src/run/words.js';
import { formatBytes } from '../../../../src/units/bytes.js';
import { isKnown } from '../../../../src/units/known.js';
import { capitalized } from '../../../../src/units/words.js';
import type { Attempt, ClimbedRung, JobView } from '../../api/types.js';

/** Something that happened to a job. */
export interface StoryStep {
  readonly atMs: number;
  readonly kind: 'plain' | 'out-of-memory' | 'rung' | 'good' | 'bad';
  readonly title: string;
  readonly detail: string;
}

/** What happened to a job, in order: submitted, started, out of memory, rungs, its end. */
export function storyOf(job: JobView): readonly StoryStep[] {
  const steps: StoryStep[] = [
    {
      atMs: Date.parse(job.submittedAt),
      kind: 'plain',
      title: 'Submitted',
      detail: submittedDetail(job),
    },
  ];
  if (job.startedAt !== null) {
    const bytes =
      job.reservation === null
        ? ''
        : `${formatBytes(job.reservation.bytes)} reserved on ${placesWords(job.reservation)}.`;
    steps.push({ atMs: Date.parse(job.startedAt), kind: 'plain', title: 'Started', detail: bytes });
  }
  for (const attempt of job.attempts) steps.push(...attemptSteps(attempt));
  if (job.currentAttempt !== null) {
    const { number, startedAt, rungs } = job.currentAttempt;
    if (number > 1) steps.push(begunStep(job.currentAttempt));
    steps.push(...climbedSteps(rungs, Date.parse(startedAt)));
  }
  if (job.endedAt !== null) {
    const kind = job.state === 'succeeded' ? 'good' : job.state === 'failed' ? 'bad' : 'plain';
    const title = capitalized(job.state);
    steps.push({ atMs: Date.parse(job.endedAt), kind, title, detail: job.reason });
  }
  return steps.toSorted((one, other) => one.atMs - other.atMs);
}

function submittedDetail({ degraded, need }: JobView): string {
  return degraded === null ? need.why : `${degraded.why} ${need.why}`;
}

function attemptSteps(attempt: Attempt): readonly StoryStep[] {
  const { number, outOfMemory, rungs, startedAt, endedAt } = attempt;
  const start = Date.parse(startedAt);
  const begun = number === 1 ? [] : [begunStep(attempt)];
  const climbed = [...spilledSteps(attempt), ...climbedSteps(rungs, start)];
  if (outOfMemory === null) return [...begun, ...climbed];
  const asked = isKnown(outOfMemory.askedBytes)
    ? `Asked for ${formatBytes(outOfMemory.askedBytes)}${isKnown(outOfMemory.freeBytes) ? ` with ${formatBytes(outOfMemory.freeBytes)} free` : ''}.`
    : '';
  const sunk: StoryStep = {
    // A rung may answer it in the same instant, and comes after it.
    atMs:
      Math.min(Date.parse(endedAt), ...rungs.map(({ atSeconds }) => start + atSeconds * 1000)) - 1,
    kind: 'out-of-memory',
    title: capitalized(outOfMemoryWords(outOfMemory)),
    detail: [asked, outOfMemory.message].filter(Boolean).join(' '),
  };
  return [...begun, sunk, ...climbed];
}

/** Told at the end of an attempt: its figures are those of all of it. */
function spilledSteps({ spill, endedAt }: Attempt): readonly StoryStep[] {
  if (spill === undefined) return [];
  return [
    { atMs: Date.parse(endedAt) - 2, kind: 'plain', title: 'Spilled', detail: spillWords(spill) },
  ];
}

function begunStep(attempt: Pick<Attempt, 'number' | 'settings' | 'startedAt'>): StoryStep {
  return {
    atMs: Date.parse(attempt.startedAt),
    kind: 'plain',
    title: `Attempt ${attempt.number}`,
    detail: `With ${settingsWords(attempt.settings)}.`,
  };
}

function climbedSteps(rungs: readonly ClimbedRung[], startMs: number): readonly StoryStep[] {
  return rungs.map(({ rung, why, atSeconds }) => ({
    atMs: startMs + atSeconds * 1000,
    kind: 'rung',
    title: rung === 'grow-back' ? 'Grew back' : `Rung: ${rung.replaceAll('-', ' ')}`,
    detail: why,
  }));
}

/**
 * Checkpointing and precision as far as the program is told: by its command, or because somebody set
 * them. Without that a plain `fp32` is only what we would tell.
 */
export function declaredSettings(
  command: readonly string[],
  { checkpointing, precision }: Attempt['settings'],
): { readonly checkpointing?: boolean; readonly precision?: string } {
  const places = placeholdersOf(command);
  return {
    ...((places.has('checkpointing') || checkpointing) && { checkpointing }),
    ...((places.has('precision') || precision !== 'fp32') && { precision }),
  };
}

/** How an attempt ended, in a few words. */
export function endWords({ outOfMemory, exitCode }: Attempt): string {
  if (outOfMemory !== null) return 'out of memory';
  if (!isKnown(exitCode)) return 'unknown';
  return exitCode === 0 ? 'finished' : `exit code ${exitCode}`;
}

/** Whether the reason of a job tells of its attempts: of one that succeeded, or ended out of memory. */
export function isRecoveryInReason({
  state,
  attempts,
}: Pick<JobView, 'attempts' | 'state'>): boolean {
  const endedOut = (attempts.at(-1)?.outOfMemory ?? null) !== null;
  return state === 'succeeded' || (state === 'failed' && endedOut);
}

/** One sentence about the attempts: how often it ran out of memory, and what it was recovered with. */
export function recoverySentence(
  job: Pick<JobView, 'attempts' | 'state' | 'currentAttempt'>,
): string | undefined {
  const { attempts, state, currentAttempt } = job;
  const times = attempts.filter(({ outOfMemory }) => outOfMemory !== null).length;
  if (times === 0) return undefined;
  const last = currentAttempt === null ? attempts.at(-1) : { ...currentAttempt, outOfMemory: null };
  return last === undefined || last.outOfMemory !== null || state === 'failed'
    ? reasonWords({ code: 'out-of-memory', times, askedBytes: 'unknown', peakBytes: 'unknown' })
    : reasonWords({ code: 'recovered', times, settings: last.settings });
}
