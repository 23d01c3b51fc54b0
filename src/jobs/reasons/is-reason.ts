import { needReasonWords } from './need-words.js';
import type { DegradedReason, JobReason, NeedReason, OveruseWarning } from './types.js';
import { reasonWords } from './words.js';

/** Whether something that was read from a store is a reason: one that can be put into words is whole. */
export function isReason(value: unknown): value is JobReason {
  return isNoted(value) && value.code !== 'over-reservation-warning';
}

/** The same for what is noted of a job: a reason, or a warning. */
export function isNoted(value: unknown): value is JobReason | OveruseWarning {
  return canBeReason(value) && hasWords(() => reasonWords(value));
}

export function isDegradedReason(value: unknown): value is DegradedReason {
  return canBeReason(value) && hasWords(() => reasonWords(value));
}

export function isNeedReason(value: unknown): value is NeedReason {
  return canBeNeedReason(value) && hasWords(() => needReasonWords(value));
}

/** Data that is missing throws; an unknown code leaves no words. */
function hasWords(words: () => string): boolean {
  try {
    return typeof words() === 'string';
  } catch {
    return false;
  }
}

function canBeReason(value: unknown): value is JobReason | DegradedReason | OveruseWarning {
  return hasCode(value);
}

function canBeNeedReason(value: unknown): value is NeedReason {
  return hasCode(value);
}

function hasCode(value: unknown): boolean {
  return (
    typeof value === 'object' && value !== null && 'code' in value && typeof value.code === 'string'
  );
}
