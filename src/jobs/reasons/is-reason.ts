import type { JobReason, OveruseWarning } from './types.js';
import { reasonWords } from './words.js';

/** Whether something that was read from a store is a reason: one that can be put into words is whole. */
export function isReason(value: unknown): value is JobReason {
  return canBeSaid(value) && value.code !== 'over-reservation-warning';
}

/** The same for what is noted of a job: a reason, or a warning. */
export function isNoted(value: unknown): value is JobReason | OveruseWarning {
  return canBeSaid(value);
}

function canBeSaid(value: unknown): value is JobReason | OveruseWarning {
  if (!hasCode(value)) return false;
  try {
    // Data that is missing throws; an unknown code leaves no words.
    return typeof reasonWords(value) === 'string';
  } catch {
    return false;
  }
}

function hasCode(value: unknown): value is JobReason | OveruseWarning {
  return (
    typeof value === 'object' && value !== null && 'code' in value && typeof value.code === 'string'
  );
}
