import { formatBytes } from '../../units/bytes.js';
import { isKnown } from '../../units/known.js';
import type { NeedReason } from './types.js';

/**
 * What the figure of a job's need rests on, in words.
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
