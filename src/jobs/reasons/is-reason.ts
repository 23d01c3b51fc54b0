import { needReasonWords } from './need-words.js';
import type { DegradedReason, JobReason, NeedReason, OveruseWarning } from './types.js';
import { reasonWords } from './words.js';

/** Whether something that was read from a store is a reason: one that can be put into words is whole. */
export function isReason(value: unknown): value is JobReason {
  return hasWords<JobReason | OveruseWarning>(value, reasonWords) && !isWarning(value);
}

/** The same for what is noted of a job: a reason, or a warning. */
export function isNoted(value: unknown): value is JobReason | OveruseWarning {
  return hasWords<JobReason | OveruseWarning>(value, reasonWords);
}

export function isDegradedReason(value: unknown): value is DegradedReason {
  return hasWords<DegradedReason>(value, reasonWords);
}

export function isNeedReason(value: unknown): value is NeedReason {
  return hasWords<NeedReason>(value, needReasonWords);
}

function isWarning(value: JobReason | OveruseWarning): value is OveruseWarning {
  return value.code === 'over-reservation-warning';
}

function hasWords<Reason extends { readonly code: string }>(
  value: unknown,
  words: (reason: Reason) => string,
): value is Reason {
  if (!hasCode<Reason>(value)) return false;
  try {
    // Data that is missing throws; an unknown code leaves no words.
    return typeof words(value) === 'string';
  } catch {
    return false;
  }
}

function hasCode<Reason extends { readonly code: string }>(value: unknown): value is Reason {
  return (
    typeof value === 'object' && value !== null && 'code' in value && typeof value.code === 'string'
  );
}
