import { isKnown, type Known } from '../units/known.js';
import type { RunContext } from './run-context.js';
import type { JournalEntry, StartedEntry } from './store/journal-entry.js';
import type { RunPlan } from './store/run-plan.js';
import type { Outcome, RunSettings } from './types.js';

/** The point where a run continues: at its beginning, in an attempt, or after one. */
export interface Standing {
  readonly number: number;
  readonly settings: RunSettings;
  /** The attempt that was under way when its supervisor was lost. */
  readonly started: StartedEntry | undefined;
  /** All attempts are over, and only the end is not written down. */
  readonly isOver: boolean;
}

export function whereItStands(past: readonly JournalEntry[], plan: RunPlan): Standing {
  const last = past.findLast(({ type }) => type === 'started' || type === 'ended');
  if (last?.type === 'started') {
    return { number: last.number, settings: last.settings, started: last, isOver: false };
  }
  if (last?.type === 'ended') {
    const { attempt, next } = last;
    return {
      number: attempt.number + 1,
      settings: next?.settings ?? attempt.settings,
      started: undefined,
      isOver: next === null,
    };
  }
  // One that was stopped before it began does not begin.
  const isOver = past.some(({ type }) => type === 'stopped');
  return { number: 1, settings: plan.settings, started: undefined, isOver };
}

/** Returns notes that the report should have from the start. */
export function firstNotes(past: readonly JournalEntry[], { libcMissing }: RunContext): string[] {
  const attached = past.filter(({ type }) => type === 'attached').length;
  const notes: string[] = [];
  if (libcMissing !== undefined) {
    notes.push(`Messages in the output could not be read (${libcMissing}).`);
  }
  if (attached > 0) {
    notes.push(
      `Its supervisor was lost and it was taken up again (${attached} x); what happened in between was read from its files.`,
    );
  }
  return notes;
}

/** The batch that a step counts, whatever it is split into. */
export function effectiveBatch({ settings }: RunPlan): Known<number> {
  const { batch_size: batch, accumulation } = settings;
  return isKnown(batch) ? batch * accumulation : 'unknown';
}

export function outcomeOf(exitCode: Known<number>, wasStopped: boolean): Outcome {
  if (exitCode === 0) return 'succeeded';
  return wasStopped ? 'interrupted' : 'failed';
}
