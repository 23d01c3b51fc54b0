import { formatBytes } from '../../units/bytes.js';
import { isKnown } from '../../units/known.js';
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

/**
 * Returns the basis of a job's need, in words.
 *
 * @example
 * needReasonWords({ code: 'estimated', bytes: 8 * 2 ** 30, traced: false });
 * // 'Estimated at 8.0 GiB; no run of it was measured yet.'
 */
export function needReasonWords(reason: NeedReason): string {
  switch (reason.code) {
    case 'stated':
      return `Stated: ${formatBytes(reason.bytes)}.${statedRunsWords(reason)}`;
    case 'no-estimate': {
      const { traceFailure } = reason;
      const failure = traceFailure === null ? '' : ` It could not be traced: ${traceFailure}`;
      return `No estimate yet: it gets a whole device for its first run, which is measured.${failure}`;
    }
    case 'estimating':
      return 'It is known once the program has been traced.';
    case 'estimated': {
      const traced = reason.traced ? ' The program was traced before its first run.' : '';
      return `Estimated at ${formatBytes(reason.bytes)}; no run of it was measured yet.${traced}`;
    }
    case 'measured':
      return measuredWords(reason);
    case 'earlier-text':
      return reason.text;
    default:
      return reason satisfies never;
  }
}

function statedRunsWords({ runs, maxPeakBytes }: Extract<NeedReason, { code: 'stated' }>): string {
  if (runs === 0) return '';
  const count = runs === 1 ? 'The one run' : `The ${runs} runs`;
  return ` ${count} of it took ${formatBytes(maxPeakBytes)} at most.`;
}

function measuredWords(reason: Extract<NeedReason, { code: 'measured' }>): string {
  const { runs, outOfMemory, maxPeakBytes, marginBytes, estimatedBytes, wholeDevice } = reason;
  const count = `${runs} ${runs === 1 ? 'run' : 'runs'}`;
  const failed = outOfMemory === 0 ? '' : `, ${outOfMemory} of them out of memory`;
  const before = isKnown(estimatedBytes) ? `; the estimate was ${formatBytes(estimatedBytes)}` : '';
  const whole = wholeDevice ? ' It gets a whole device, as when it succeeded.' : '';
  return `Measured in ${count}${failed}: at most ${formatBytes(maxPeakBytes)}, with a margin of ${formatBytes(marginBytes)}${before}.${whole}`;
}
